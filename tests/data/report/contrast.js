// The contrast of every visible text with what lies behind it, after WCAG 2; the worst ones.
const channel = (c) => (c /= 255, c <= .04045 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4);
const parse = (text) => (text.match(/[\d.]+/g) || []).map(Number);
const light = ([r, g, b]) => .2126 * channel(r) + .7152 * channel(g) + .0722 * channel(b);
const behind = (element) => {
  for (; element; element = element.parentElement) {
    const colour = parse(getComputedStyle(element).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const bad = [];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node = walker.nextNode(); node; node = walker.nextNode()) {
  const element = node.parentElement;
  if (!node.data.trim() || !element.checkVisibility() || element.closest('svg, script, .heard')) continue;
  const [a, b] = [light(parse(getComputedStyle(element).color)), light(behind(element))];
  const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  if (ratio < 4.5) bad.push(`${ratio.toFixed(2)} ${element.className || element.tagName}: ${node.data.trim().slice(0, 40)}`);
}
return [...new Set(bad)];
