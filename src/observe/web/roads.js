// roads.js - links between ranks, and how each gradient travels.
import { el, first, getFile, count, seconds, percent } from './data.js';

let box = null, before = null;

function matrix(links) {
  const n = links.ranks, speed = links.bytes_per_second;
  const most = Math.max(...speed), least = Math.min(...speed.filter((v) => v));
  const cell = (a, b) => {
    const v = speed[a * n + b];
    const td = el('td', { title: a === b ? '' : `rank ${a} and ${b}: ` +
      `${count(v, 'B/s')}, ${seconds(links.latency_seconds[a * n + b])}` },
    a === b ? '' : count(v, 'B/s'));
    if (a !== b) {
      const k = most > least ? (v - least) / (most - least) : 1;
      td.style.background = `hsl(${20 + 120 * k} 55% 50% / 0.28)`;
    }
    return td;
  };
  const all = [...Array(n).keys()];
  return el('section', { class: 'card' }, el('h2', {}, 'Links'),
    el('div', { class: 'scroll' }, el('table', { id: 'links' },
      el('thead', {}, el('tr', {}, el('th'), ...all.map((b) =>
        el('th', {}, 'rank ' + b)))),
      el('tbody', {}, ...all.map((a) => el('tr', {},
        el('th', { class: 'word' }, 'rank ' + a),
        ...all.map((b) => cell(a, b))))))),
    el('p', { class: 'dim' }, 'Messages between every two ranks, measured ' +
      'when the run began.'));
}

function table(params) {
  const list = [...params].sort((a, b) => b.floats - a.floats);
  const bytes = list.reduce((n, p) => n + p.bytes, 0);
  return el('section', { class: 'card' }, el('h2', {}, 'Roads: ' +
    count(bytes, 'B') + ' sent per iteration'),
  el('div', { class: 'scroll' }, el('table', { id: 'roads' },
    el('thead', {}, el('tr', {}, ...['parameter', 'road', 'floats', 'sent',
      'of all', 'predicted', 'measured', 'measured / predicted'].map((t, i) =>
      el('th', { class: i < 2 ? 'word' : '' }, t)))),
    el('tbody', {}, ...list.map((p) => el('tr', {},
      el('td', { class: 'word' }, p.param),
      el('td', { class: 'word' }, p.road + (p.may_choose ? ' *' : '')),
      el('td', {}, count(p.floats)), el('td', {}, count(p.bytes, 'B')),
      el('td', {}, percent(p.bytes / (bytes || 1))),
      el('td', {}, p.predicted ? seconds(p.predicted) : '–'),
      el('td', {}, p.measured ? seconds(p.measured) : '–'),
      el('td', {}, p.measured && p.predicted
        ? (p.measured / p.predicted).toPrecision(2) : '–')))))),
  el('p', { class: 'dim' }, '* another road was possible. What is summed in ' +
    'shared memory during backward cannot be told apart from it, so it has ' +
    'no measured time.'));
}

// Why there is no table of links.
function noMatrix(run) {
  const n = run && run.run ? run.run.ranks.length : 0;
  return el('section', { class: 'card', id: 'nolinks' }, el('h2', {}, 'Links'),
    el('p', { class: 'dim' }, n > 16
      ? `Links are measured between every two of up to 16 ranks; this run ` +
        `has ${n}.`
      : 'Links are measured when a run with a fixed number of ranks begins, ' +
        'not where ranks come and go.'));
}

function draw(r) {
  const run = first();
  if (!r) {
    box.replaceChildren(el('p', { class: 'dim' }, run && run.run &&
      run.run.ranks.length < 2 ? 'One rank: nothing travels.'
      : 'No roads yet; they come with the first look at the parameters.'));
    return;
  }
  box.replaceChildren(el('p', {}, 'Gradients come together as ',
    el('b', {}, r.way), r.message_seconds ? `. A message takes ` +
    `${seconds(r.message_seconds)} and ${count(1 / r.seconds_per_byte,
      'B/s')}; products run at ${count(r.flops, 'FLOP/s')}.` : '.'),
  r.links ? matrix(r.links) : noMatrix(run),
  r.params.length ? table(r.params) : '');
}

export function open(into) {
  box = el('div');
  into.append(box);
  before = null;
}

export async function refresh() {
  const run = first();
  if (!run || !box) return;
  const r = await getFile(run, 'roads.json');
  if (r && before === r.time) return;
  before = r ? r.time : null;
  draw(r);
}
