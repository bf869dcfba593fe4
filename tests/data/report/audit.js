// What a screen reader needs: names for controls and pictures, one h1, no level left out, no id twice.
const wrong = [];
for (const input of document.querySelectorAll('input')) if (!input.labels.length) wrong.push(`no label: ${input.id}`);
for (const button of document.querySelectorAll('button')) if (!button.textContent.trim()) wrong.push('no name: button');
for (const svg of document.querySelectorAll('svg')) {
  if (svg.getAttribute('aria-hidden') !== 'true' && !(svg.getAttribute('role') === 'img' && svg.getAttribute('aria-label'))) wrong.push('no name: svg');
}
for (const th of document.querySelectorAll('th')) if (!th.scope) wrong.push(`no scope: ${th.textContent}`);
let level = 0;
for (const h of document.querySelectorAll('h1,h2,h3,h4')) {
  if (Number(h.tagName[1]) > level + 1) wrong.push(`level left out before ${h.textContent}`);
  level = Number(h.tagName[1]);
}
if (document.querySelectorAll('h1').length !== 1) wrong.push('not one h1');
const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
if (new Set(ids).size !== ids.length) wrong.push('an id twice');
for (const e of document.querySelectorAll('[aria-labelledby]')) if (!document.getElementById(e.getAttribute('aria-labelledby'))) wrong.push('labelled by nothing');
const named = (e) => e.getAttribute('aria-label') || document.getElementById(e.getAttribute('aria-labelledby'))?.textContent;
const regions = [...document.querySelectorAll('[role=region], section, nav')].map(named);
if (regions.some((name) => !name) || new Set(regions).size !== regions.length) wrong.push(`regions: ${regions}`);
if (!document.documentElement.lang) wrong.push('no language');
if (document.documentElement.scrollWidth > innerWidth) wrong.push(`wider than the window: ${document.documentElement.scrollWidth}`);
return wrong;
