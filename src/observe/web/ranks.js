// ranks.js - how every rank is doing; many of them as a picture.
import {
  el, first, getFile, getLines, count, percent, seconds,
} from './data.js';
import { drawMarks, marksOf } from './charts.js';

const many = 64;   // ranks from which on the table shows the slowest alone
let box = null, sort = null, metric = 'wait';
// Numbers of old lines that are fetched, by all ranks together.
const most = 10000;
let cursor = null, latest = null, history = []; // of waiting: time and spread

const columns = [
  ['rank', 'rank', (r) => r.rank],
  ['host', 'host', (r) => r.host, 'word'],
  ['device', 'device', (r) => r.device, 'word'],
  ['iter', 'iteration', (r) => r.iter],
  ['speed', 'iterations/s', (r) => r.speed.toPrecision(3)],
  ['share', 'share', (r) => percent(r.share)],
  ['doing', 'doing', (r) => r.gone ? 'lost' : r.doing, 'word'],
  ['wait', 'waits', (r) => percent(r.wait)],
  ['waiting', 'waits now for', (r) => r.waiting > 0.05
    ? (r.waiting_for < 0 ? 'all' : 'rank ' + r.waiting_for) + ', ' +
      seconds(r.waiting) : '', 'word'],
  ['sent', 'sent/s', (r) => count(r.sent, 'B')],
  ['memory', 'memory', (r) => count(r.memory, 'B') + (r.device_memory
    ? ' + ' + count(r.device_memory, 'B') + ' GPU' : '')],
  ['temperature', 'temperature', (r) => r.temperature
    ? r.temperature + ' °C' : ''],
];

function rows(run) {
  const facts = run.run ? run.run.ranks : [];
  const total = facts.reduce((n, f) => n + (f.samples || 0), 0);
  const training = facts.filter((f) => !f.serves).length || 1;
  return latest.iter.map((iter, i) => {
    const f = facts[i] || {};
    return { rank: i, iter, host: f.host || '', device: f.device || '',
      speed: latest.iterations_per_second[i], wait: latest.wait[i],
      share: f.serves ? 0 : total ? f.samples / total : 1 / training,
      doing: (f.serves ? 'serves' : latest.phase[i]) +
        (latest.layer[i] ? ' · ' + latest.layer[i] : ''),
      waiting: latest.waiting[i], waiting_for: latest.waiting_for[i],
      sent: latest.sent_per_second[i], memory: latest.memory[i],
      device_memory: latest.device_memory[i],
      temperature: latest.temperature ? latest.temperature[i] : 0,
      gone: latest.gone[i] === 1 };
  });
}

function spread(list) {
  const s = list.filter((v) => v !== null).sort((a, b) => a - b);
  return { min: s[0], mid: s[Math.floor(s.length / 2)], max: s[s.length - 1] };
}

function tiles(all) {
  const living = all.filter((r) => !r.gone);
  const wait = spread(living.map((r) => r.wait));
  const speed = spread(living.map((r) => r.speed));
  const iter = spread(living.map((r) => r.iter));
  const least = living.reduce((a, b) => a && a.wait <= b.wait ? a : b, null);
  const tile = (value, name) =>
    el('div', { class: 'card tile' }, el('b', {}, value),
      el('span', { class: 'dim' }, name));
  return el('div', { class: 'tiles' },
    tile(`${living.length} of ${all.length}`, 'ranks at work'),
    tile(percent(wait.mid), `waiting (from ${percent(wait.min)} to ` +
      percent(wait.max) + ')'),
    tile((speed.mid || 0).toPrecision(3), 'iterations/s'),
    tile(String((iter.max || 0) - (iter.min || 0)),
      'iterations from first to last'),
    living.length > 1 ? tile('rank ' + least.rank,
      'waits least: others wait for it') : '',
    tile(count(living.reduce((n, r) => n + r.sent, 0), 'B'), 'sent/s by all'));
}

// One small square per rank, from calm to hot.
function picture(all) {
  const canvas = el('canvas', { id: 'rankmap', title: 'one square per rank' });
  const across = Math.ceil(Math.sqrt(all.length * 3)), cell = 12;
  canvas.width = across * cell;
  canvas.height = Math.ceil(all.length / across) * cell;
  const c = canvas.getContext('2d');
  const value = { wait: (r) => r.wait, speed: (r) => r.speed,
    iter: (r) => r.iter, memory: (r) => r.memory }[metric];
  const s = spread(all.map(value));
  all.forEach((r, i) => {
    const v = s.max > s.min ? (value(r) - s.min) / (s.max - s.min) : 0;
    c.fillStyle = r.gone ? '#c53030'
      : `hsl(${210 - 180 * v} 60% ${60 - 10 * v}%)`;
    c.fillRect((i % across) * cell, Math.floor(i / across) * cell,
      cell - 1, cell - 1);
  });
  const say = metric === 'memory' ? (v) => count(v, 'B') : short;
  const what = el('div', { class: 'dim' }, `blue ${say(s.min)}, orange ` +
    say(s.max) + '; red: lost');
  canvas.addEventListener('mousemove', (e) => {
    const k = canvas.width / canvas.getBoundingClientRect().width;
    const r = all[Math.floor(e.offsetY * k / cell) * across +
      Math.floor(e.offsetX * k / cell)];
    if (r) what.textContent = `rank ${r.rank} on ${r.host}: ${r.doing}, ` +
      `waits ${percent(r.wait)}, iteration ${r.iter}`;
  });
  return el('section', { class: 'card' }, el('h2', {}, 'All ranks by ',
    el('select', { id: 'rankmetric', onchange: (e) => { metric = e.target.value; draw(); } },
      ...['wait', 'speed', 'iter', 'memory'].map((m) =>
        el('option', { value: m, selected: m === metric }, m)))),
  canvas, what);
}

const short = (v) => v === undefined ? '–'
  : String(Number.isInteger(v) ? v : Number(v.toPrecision(3)));

function table(all) {
  // Of many ranks those come first that the others wait for.
  const { key: by, up } = sort ||
    { key: all.length > many ? 'wait' : 'rank', up: true };
  const list = [...all].sort((a, b) =>
    (a[by] < b[by] ? -1 : a[by] > b[by] ? 1 : 0) * (up ? 1 : -1));
  const part = all.length > many
    ? [...list.filter((r) => r.gone), ...list.filter((r) => !r.gone)]
      .slice(0, many) : list;
  const shown = columns.filter(([key]) => key !== 'temperature' ||
    all.some((r) => r.temperature));
  const head = shown.map(([key, name, , kind]) => el('th',
    { class: (kind || '') + (key === by ? ' sorted' : '') +
        (key === by && up ? ' up' : ''),
      // Not a click: rows come anew every second, also in the middle of one.
      onpointerdown: () => {
        sort = { key, up: by === key ? !up : true };
        draw();
      } }, name));
  return el('section', { class: 'card' },
    el('div', { class: 'scroll' }, el('table', { id: 'ranktable' },
      el('thead', {}, el('tr', {}, ...head)),
      el('tbody', {}, ...part.map((r) =>
        el('tr', { class: r.gone ? 'gone' : '' }, ...shown.map(
          ([, , text, kind]) => el('td', { class: kind || '' }, text(r)))))))),
    part.length < all.length ? el('div', { class: 'dim' },
      `${part.length} of ${all.length} ranks, sorted by ${by}`) : null);
}

// Waiting over time: the least, the mean and the most of all ranks.
function waitChart() {
  const plot = el('div');
  const card = el('section', { class: 'card' },
    el('h2', {}, 'Share of time spent waiting'), plot);
  const t0 = history[0].time;
  const data = ['time', 'least', 'mean', 'most'].map((key) =>
    history.map((h) => key === 'time' ? h.time - t0 : h[key]));
  const css = getComputedStyle(document.documentElement);
  const axis = { stroke: css.getPropertyValue('--dim'), grid:
    { stroke: css.getPropertyValue('--line'), width: 1 } };
  requestAnimationFrame(() => {
    if (plot.isConnected)
      new window.uPlot({ width: Math.max(260, plot.clientWidth), height: 170,
        scales: { x: { time: false } }, axes: [axis, axis],
        hooks: { draw: [(u) => drawMarks(u, first(), (m) => m.time - t0)] },
        series: [{ label: 'seconds' },
          { label: 'least', stroke: '#4f9d69', width: 1 },
          { label: 'mean', stroke: '#4c78a8', width: 2 },
          { label: 'most', stroke: '#e07b39', width: 1 }] }, data, plot);
  });
  return card;
}

function draw() {
  const run = first();
  if (!latest || !run) {
    box.replaceChildren(el('p', { class: 'dim' }, 'No figures yet.'));
    return;
  }
  const all = rows(run);
  const marks = marksOf(run);
  const scroll = box.querySelector('.scroll');
  const at = scroll ? scroll.scrollTop : 0;
  box.replaceChildren(tiles(all),
    marks.length ? el('section', { class: 'card', id: 'marks' },
      el('h2', {}, 'Marks'), ...marks) : '',
    all.length > many ? picture(all) : '', table(all),
    el('div', { class: 'grid' },
      all.length > 8 && all.length <= many ? picture(all) : '',
      all.length > 1 && history.length > 2 ? waitChart() : ''));
  if (box.querySelector('.scroll')) box.querySelector('.scroll').scrollTop = at;
}

export function open(into) {
  box = el('div');
  into.append(box);
  cursor = {};
  latest = null;
  history = [];
}

window.cortado.rankTimes = () => history.map((h) => h.time);

// Only waiting is kept of a line that is not the latest.
const waitsOf = (line) => ({ time: line.time, least: Math.min(...line.wait),
  mean: line.wait.reduce((a, b) => a + b, 0) / line.wait.length,
  most: Math.max(...line.wait) });

export async function refresh() {
  const run = first();
  if (!run || !box) return;
  const mine = cursor, n = run.run ? run.run.ranks.length : 1;
  // A line grows with the ranks: of many ranks fewer old lines are fetched.
  const lines = await getLines(run, 'ranks.jsonl', mine,
    Math.max(8, Math.min(300, Math.floor(most / n))));
  if (mine !== cursor) return; // the page was opened again
  if (lines.length) {
    latest = lines[lines.length - 1];
    history.push(...lines.map(waitsOf));
    if (history.length > 600) history.splice(0, history.length - 600);
  }
  const newer = await getNow(run, mine, n);
  if (mine !== cursor) return;
  if (newer) latest = newer;
  if (lines.length || newer || !box.firstChild) draw();
}

// Lines come more rarely as a run gets longer.  How ranks are now stands in a
// file of its own, which is fetched where the last line is old.
async function getNow(run, mine, n) {
  const time = Date.now() / 1000, far = n > many ? 5 : 2;
  if (run.status !== 'running' || !latest || time - latest.time < far ||
      time - (mine.looked || 0) < far) return null;
  mine.looked = time;
  const now = await getFile(run, 'ranks_now.json');
  return now && now.time > latest.time ? now : null;
}
