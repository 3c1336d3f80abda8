// log.js - the log, with a filter.
import { el, first, getMore, save } from './data.js';

const most = 4000;
let lines = [], cursor = {}, box = null, filter = '', levels = 'IWEF', follow = true;
let shownText = null;

function matches(line) {
  if (!levels.includes(line.level)) return false;
  if (!filter) return true;
  try {
    return new RegExp(filter, 'i').test(line.text);
  } catch {
    return line.text.toLowerCase().includes(filter.toLowerCase());
  }
}

function take(text) {
  for (const t of text.split('\n')) {
    if (!t) continue;
    const head = /^([IWEF])\d{4} /.exec(t);
    const before = lines[lines.length - 1];
    lines.push({ text: t, level: head ? head[1] : before ? before.level
      : 'I' });
  }
  if (lines.length > 4 * most) lines.splice(0, lines.length - 4 * most);
}

function draw() {
  const list = lines.filter(matches).slice(-most);
  shownText.replaceChildren(...list.map((l) =>
    el('span', { class: l.level }, l.text + '\n')));
  box.querySelector('#loglines').textContent =
    `${list.length} of ${lines.length} lines`;
  const scroll = box.querySelector('.scroll');
  if (follow) scroll.scrollTop = scroll.scrollHeight;
}

export function open(into) {
  shownText = el('pre', { id: 'logtext' });
  const level = (l, name) => el('label', {}, el('input', { type: 'checkbox',
    id: 'level' + l, checked: levels.includes(l), onchange: (e) => {
      levels = e.target.checked ? levels + l : levels.replace(l, '');
      draw();
    } }), ' ' + name);
  box = el('div', {}, el('div', { class: 'tools' },
    el('input', { type: 'search', id: 'logfilter', placeholder: 'filter',
      value: filter, oninput: (e) => { filter = e.target.value; draw(); } }),
    level('I', 'information'), level('W', 'warnings'), level('E', 'errors'),
    el('label', {}, el('input', { type: 'checkbox', id: 'follow',
      checked: follow, onchange: (e) => {
        follow = e.target.checked;
        draw();
      } }), ' follow'),
    el('button', { id: 'savelog', onclick: () => save('log.txt', 'text/plain',
      lines.map((l) => l.text).join('\n') + '\n') }, 'Save'),
    el('span', { class: 'dim', id: 'loglines' })),
  el('section', { class: 'card scroll' }, shownText));
  into.append(box);
  lines = [];
  cursor = {};
}

export async function refresh() {
  const run = first();
  if (!run || !box) return;
  const mine = cursor;
  const text = await getMore(run, 'log.txt', mine, 'tail=400000');
  if (text && mine === cursor) { // else the page was opened again
    take(text);
    draw();
  }
}
