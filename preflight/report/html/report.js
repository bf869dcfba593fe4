"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  // In the language of the page, with its numbers.
  const say = (text, ...numbers) =>
    numbers.reduce((said, number, place) => said.replace(`[${place + 1}]`, number), data.words[text] || text);
  const form = document.getElementById("filter");
  const lines = [...document.querySelectorAll("#matrix .line")];
  const words = document.getElementById("words");
  const who = document.getElementById("who");
  const boxes = [...form.querySelectorAll("input[type=checkbox]")];
  const names = { f: say("fail"), e: say("error"), w: say("warn"), p: say("pass"), s: say("skip"), n: say("not judged") };
  // "510pf1p" -> one letter a node
  const cells = data.rows.map(([, packed]) =>
    [...packed.matchAll(/(\d*)(\D)/g)].map(([, count, letter]) => letter.repeat(count || 1)).join(""));
  const texts = lines.map((line) => line.textContent.toLowerCase());
  const summaries = lines.map((line) => line.querySelector(".summary"));
  const allSummaries = summaries.map((spot) => spot.textContent);
  const bands = lines.map((line) => line.querySelector(".strip"));
  const shapeOf = (band) => [band.getAttribute("viewBox"), ...[...band.children].map((path) => path.getAttribute("d"))];
  const allShapes = bands.map((band) => band && shapeOf(band));
  const drawnFor = lines.map(() => "");

  const terms = (input, separator) => input.value.toLowerCase().split(separator).map((t) => t.trim()).filter(Boolean);

  // The same band as report/strip.py draws, of the chosen nodes.
  const restore = (band, [box, ...shapes]) => {
    band.setAttribute("viewBox", box);
    shapes.forEach((shape, place) => band.children[place].setAttribute("d", shape));
  };
  const draw = (band, letters) => {
    const count = Math.max(letters.length, 1);
    band.setAttribute("viewBox", `0 0 ${count} 10`);
    for (const path of band.children) {
      const letter = path.getAttribute("class");
      const [top, height] = data.shapes[letter];
      let shape = "";
      for (const found of letters.matchAll(new RegExp(`${letter}+`, "g"))) {
        let [left, wide] = [found.index, found[0].length];
        const least = count / data.narrowest;
        if (data.standingOut.includes(letter) && wide < least) {
          left = Math.min(Math.max(left - (least - wide) / 2, 0), count - least);
          wide = least;
        }
        shape += `M${left} ${top}h${wide}v${height}h-${wide}z`;
      }
      path.setAttribute("d", shape);
    }
  };

  const inWords = (letters) => {
    const counts = {};
    for (const letter of letters) counts[letter] = (counts[letter] || 0) + 1;
    return Object.keys(names).filter((l) => counts[l]).map((l) => `${names[l]} ${counts[l]}`).join(" · ") || say("no node");
  };

  let before = "";
  const apply = () => {
    const wanted = terms(words, /\s+/);
    const nodes = terms(who, ",");
    const verdicts = new Set(boxes.filter((box) => box.checked).map((box) => box.value));
    const chosen = [];
    data.nodes.forEach((node, place) => { if (!nodes.length || nodes.some((n) => node.includes(n))) chosen.push(place); });
    const nodesChanged = before !== who.value;
    before = who.value;
    let shown = 0;
    lines.forEach((line, place) => {
      const [worst] = data.rows[place];
      const all = cells[place];
      const letters = nodes.length ? chosen.map((node) => all[node]).join("") : all;
      const seen = nodes.length || letters ? letters : worst;
      const fits = wanted.every((word) => texts[place].includes(word))
        && ([...verdicts].some((letter) => seen.includes(letter)) || (!nodes.length && verdicts.has(worst)));
      line.hidden = !fits;
      shown += fits;
      // What is hidden is redrawn when it is seen again.
      if (fits && drawnFor[place] !== who.value) {
        drawnFor[place] = who.value;
        summaries[place].textContent = nodes.length ? inWords(letters) : allSummaries[place];
        if (!bands[place]) return;
        if (nodes.length) draw(bands[place], letters);
        else restore(bands[place], allShapes[place]);
      }
    });
    if (nodesChanged) {
      const kept = new Set(chosen);
      for (const cell of document.querySelectorAll("#matrix [data-node]")) cell.hidden = !kept.has(Number(cell.dataset.node));
      for (const ends of document.querySelectorAll("#matrix span.ends")) ends.hidden = nodes.length > 0;
      for (const row of document.querySelectorAll("#nodes [data-name]")) {
        row.hidden = nodes.length > 0 && !nodes.some((n) => row.dataset.name.toLowerCase().includes(n));
      }
    }
    document.getElementById("none").hidden = shown > 0;
    const some = nodes.length ? say(", [1] of [2] nodes", chosen.length, data.nodes.length) : "";
    document.getElementById("count").textContent = say("[1] of [2] checks", shown, lines.length) + some;
  };

  // The filter is in the address, so that it can be sent; so is a check, which is opened.
  const keep = () => {
    const state = new URLSearchParams();
    if (words.value) state.set("words", words.value);
    if (who.value) state.set("node", who.value);
    if (!boxes.every((box) => box.checked)) state.set("verdict", boxes.filter((box) => box.checked).map((box) => box.value).join(""));
    history.replaceState(null, "", state.size ? `#${state}` : location.pathname + location.search);
  };
  const follow = () => {
    const state = new URLSearchParams(location.hash.slice(1));
    if (!["words", "node", "verdict", "check"].some((name) => state.has(name))) return false;
    words.value = state.get("words") || "";
    who.value = state.get("node") || "";
    for (const box of boxes) box.checked = !state.has("verdict") || state.get("verdict").includes(box.value);
    apply();
    const line = lines.find((one) => one.querySelector(".check").textContent === state.get("check"));
    if (line) {
      line.open = true;
      line.scrollIntoView({ block: "center" });
      line.querySelector("summary").focus({ preventScroll: true });
    } else {
      document.getElementById("matrix").scrollIntoView();
    }
    return true;
  };
  // A phone has room for what stands out; a box brings the rest.
  const isBad = data.rows.some(([worst]) => "few".includes(worst));
  if (isBad && matchMedia("(max-width: 760px)").matches) {
    for (const box of boxes) box.checked = "few".includes(box.value);
  }

  form.hidden = !lines.length;
  form.addEventListener("input", () => { apply(); keep(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  addEventListener("hashchange", follow);
  if (!follow()) apply();

  // A command is there to be pasted.
  const copy = async (text, button) => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = say("Copied");
    } catch {
      button.textContent = say("Select it by hand");
    }
    setTimeout(() => { button.textContent = say("Copy"); }, 1500);
  };
  for (const fix of document.querySelectorAll(".cause .fix")) {
    // The whole advice where it holds no command, or more than one of which only some are meant to be typed.
    const paragraph = fix.querySelector("p, pre");
    const codes = paragraph.querySelectorAll("code");
    const command = (codes.length === 1 ? codes[0] : paragraph).textContent;
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = say("Copy");
    button.setAttribute("aria-label", `${say("Copy")} ${command.slice(0, 80)}`);
    button.addEventListener("click", () => copy(command, button));
    fix.append(button);
  }

  // On paper, what is wrong stands open.
  addEventListener("beforeprint", () => lines.forEach((line, place) => {
    if ("few".includes(data.rows[place][0])) line.open = true;
  }));
})();
