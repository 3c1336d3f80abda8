// layers.js - where the time of a step goes, layer by layer.
import { el, first, getFile, count, seconds, percent } from './data.js';

let box = null, order = 'time', net = null, times = null;
const tones = { data: '#8064a2', forward: '#4c78a8', backward: '#e07b39',
  exchange: '#b04a5a', update: '#4f9d69', test: '#c9a227',
  snapshot: '#7a6a58' };

function rows() {
  return net.layers.map((l, i) => {
    const [forward, backward] = times ? times.layers[i] || [0, 0] : [0, 0];
    const params = l.params.reduce((n, p) => n + p.count, 0);
    const flops = l.forward_flops + l.backward_flops;
    return { ...l, i, forward, backward, time: forward + backward,
      flops, memory: l.top_bytes + 8 * params, params };
  });
}

// Layers that run as one: their work counts where their time does.
function speeds(list) {
  const work = new Map();
  for (const l of list) {
    const at = l.runs_with || l.name;
    work.set(at, (work.get(at) || 0) + l.flops);
  }
  for (const l of list)
    l.speed = !l.runs_with && l.time > 0 ? work.get(l.name) / l.time : 0;
}

function bar(value, most, kind) {
  const b = el('i', { class: 'bar ' + kind });
  const share = Math.max(0, value / (most || 1));
  b.style.width = `min(${180 * share}px, ${28 * share}vw)`;
  return b;
}

function phases() {
  const all = Object.entries(times.phases).filter(([, v]) => v > 0);
  const sum = all.reduce((n, [, v]) => n + v, 0) || 1;
  const stack = el('div', { class: 'stack' });
  const key = el('div', { class: 'key' });
  for (const [name, v] of all) {
    const part = el('i', { title: `${name}: ${seconds(v)}` });
    part.style.width = 100 * v / sum + '%';
    part.style.background = tones[name] || '#888';
    stack.append(part);
    const dot = el('i');
    dot.style.background = tones[name] || '#888';
    key.append(el('span', {}, dot,
      `${name} ${seconds(v)} (${percent(v / sum)})`), ' ');
  }
  return el('section', { class: 'card', id: 'phases' },
    el('h2', {}, 'An iteration takes ' + seconds(sum)), stack, key);
}

function draw() {
  if (!net) {
    box.replaceChildren(el('p', { class: 'dim' }, 'No net yet.'));
    return;
  }
  const list = rows();
  speeds(list);
  if (order !== 'net') list.sort((a, b) => b[order] - a[order] || a.i - b.i);
  const most = Math.max(...list.map((l) => l.time));
  const heavy = Math.max(...list.map((l) => l.memory));
  const body = list.map((l) => el('tr', {},
    el('td', { class: 'word' }, l.name),
    el('td', { class: 'word dim' }, l.type),
    el('td', { class: 'word' }, l.runs_with ? el('span', { class: 'dim' },
      'runs with ' + l.runs_with) : bar(l.forward, most, ''),
    l.runs_with ? '' : bar(l.backward, most, 'two')),
    el('td', {}, l.forward ? seconds(l.forward) : ''),
    el('td', {}, l.backward ? seconds(l.backward) : ''),
    el('td', {}, l.speed ? count(l.speed, 'FLOP/s') : ''),
    el('td', {}, l.flops ? count(l.flops, 'FLOP') : ''),
    el('td', {}, count(l.memory, 'B')),
    el('td', { class: 'word' }, bar(l.memory / 3, heavy, 'three'))));
  const choose = el('select', { id: 'layerorder', onchange: (e) => {
    order = e.target.value;
    draw();
  } }, ...[['time', 'time'], ['forward', 'forward'], ['backward', 'backward'],
    ['speed', 'FLOP/s'], ['flops', 'FLOP'], ['memory', 'memory'],
    ['net', 'their order in the net']].map(([v, t]) =>
    el('option', { value: v, selected: v === order }, t)));
  box.replaceChildren(times ? phases() : '',
    el('div', { class: 'tools' }, el('label', {}, 'Sort by ', choose),
      el('span', { class: 'dim' }, 'Blue: forward, orange: backward. ' +
        (times && times.clocked_iter !== undefined
          ? `Times are rank 0's in iteration ${times.clocked_iter}, which ` +
            'ran layer by layer.'
          : 'Times are samples of what rank 0 does, per iteration.'))),
    el('section', { class: 'card scroll' }, el('table', { id: 'layertable' },
      el('thead', {}, el('tr', {}, ...['layer', 'type', '', 'forward',
        'backward', 'speed', 'work', 'memory', ''].map((t, i) =>
        el('th', { class: i < 3 || i === 8 ? 'word' : '' }, t)))),
      el('tbody', {}, ...body))));
}

export function open(into) {
  box = el('div');
  into.append(box);
  net = times = null;
}

export async function refresh() {
  const run = first();
  if (!run || !box) return;
  if (!net) net = await getFile(run, 'net.json');
  const t = await getFile(run, 'times.json');
  const changed = !times || !t || t.time !== times.time;
  times = t;
  if (changed && document.activeElement?.id !== 'layerorder') draw();
}
