// data.js - what the server has: runs, their series, and small files.

export const $ = (id) => document.getElementById(id);

// Makes an element: el('td', {class: 'word'}, 'text', child, ...).
export function el(name, attributes, ...inner) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes || {})) {
    if (k.startsWith('on')) e.addEventListener(k.slice(2), v);
    else if (v === true) e.setAttribute(k, '');
    else if (v !== false && v !== null && v !== undefined)
      e.setAttribute(k, v);
  }
  e.append(...inner.filter((x) => x !== null && x !== undefined));
  return e;
}

export const colors = ['#4c78a8', '#e07b39', '#4f9d69', '#b04a5a', '#8064a2',
  '#2a9d9d', '#c9a227', '#7a6a58', '#d16ba5', '#5b8c2a'];

export const state = { runs: [], shown: new Set(), first: 0, token: '',
  control: false };

function readToken() {
  const found = /token=([0-9a-f]+)/.exec(location.hash);
  if (found) {
    sessionStorage.setItem('token', found[1]);
    history.replaceState(null, '', location.pathname + '#curves');
  }
  state.token = sessionStorage.getItem('token') || '';
}
readToken();

const headers = () =>
  state.token ? { Authorization: 'Bearer ' + state.token } : {};

export async function get(path) {
  const r = await fetch(path, { headers: headers(), cache: 'no-store' });
  if (!r.ok) {
    const e = new Error(path + ': ' + r.status);
    e.status = r.status;
    throw e;
  }
  return r;
}

export async function post(path) {
  const r = await fetch(path, { method: 'POST', headers: headers() });
  if (!r.ok) throw new Error(path + ': ' + r.status);
}

// A small JSON file of a run; null where there is none.
export async function getFile(run, name) {
  return (await get(`/api/runs/${run.id}/${name}`)).json();
}

// What a file that grows has since the last time, or, the first time, what
// `start` asks for.  Who asks while an answer is on its way gets nothing.
export async function getMore(run, name, cursor, start) {
  if (cursor.busy) return '';
  cursor.busy = true;
  try {
    const query = cursor.next === undefined ? start : 'from=' + cursor.next;
    const r = await get(`/api/runs/${run.id}/${name}?${query}`);
    const text = await r.text();
    cursor.next = Number(r.headers.get('X-Next'));
    return text;
  } finally {
    cursor.busy = false;
  }
}

// Its whole lines, as objects.
export async function getLines(run, name, cursor, thin) {
  const text = await getMore(run, name, cursor, 'thin=' + thin);
  return text.split('\n').filter(Boolean).map((l) => JSON.parse(l));
}

const column = () => ({ x: [], t: [], y: [] });

// begun: the time of the earliest line, also where a run was resumed.
function newSeries() {
  return { cursor: {}, curves: new Map(), marks: [], snapshots: [], last: null,
    changed: 0, begun: Infinity };
}

function put(s, name, line, value) {
  if (value === undefined) return;
  if (!s.curves.has(name)) s.curves.set(name, column());
  const c = s.curves.get(name);
  c.x.push(line.iter);
  c.t.push(line.time);
  c.y.push(value);
}

// Training went on from an earlier iteration: what came after it is void.
function rewind(s, iter) {
  for (const c of s.curves.values()) {
    let n = c.x.length;
    while (n > 0 && c.x[n - 1] >= iter) n--;
    c.x.length = c.t.length = c.y.length = n;
  }
}

const fields = { loss: 'train loss', rate: 'learning rate',
  samples_per_second: 'samples/s', seconds_left: 'seconds left',
  seconds: 'step seconds' };

function takeLine(s, line) {
  s.changed++;
  if (line.time < s.begun) s.begun = line.time;
  if (line.kind === 'start') rewind(s, line.iter);
  else if (line.kind === 'iteration') {
    for (const [key, name] of Object.entries(fields))
      put(s, name, line, line[key]);
    s.last = line;
  } else if (line.kind === 'test') {
    const net = line.net ? ` (net ${line.net})` : '';
    for (const [key, value] of Object.entries(line.outputs))
      put(s, `test ${key}${net}`, line, value);
  } else if (line.kind === 'norms') {
    put(s, 'weight norm', line, line.weights);
    put(s, 'gradient norm', line, line.gradients);
  } else if (line.kind === 'mark') s.marks.push(line);
  else if (line.kind === 'snapshot') s.snapshots.push(line);
  else if (line.kind === 'stop') s.stopped = line;
}

export async function refreshSeries(run) {
  const s = run.series;
  for (const line of await getLines(run, 'series.jsonl', s.cursor, 4000))
    takeLine(s, line);
}

// The series as it was written: the page itself thins out a long one.
export async function wholeSeries(run) {
  const s = newSeries();
  s.cursor.next = 0;
  for (;;) {
    const lines = await getLines(run, 'series.jsonl', s.cursor, 0);
    if (!lines.length) return s;
    lines.forEach((line) => takeLine(s, line));
  }
}

export async function refreshRuns() {
  const list = await (await get('/api/runs')).json();
  for (const r of list) {
    const old = state.runs[r.id];
    const fresh = { ...r, series: old ? old.series : newSeries(),
      color: colors[r.id % colors.length], cache: old ? old.cache : {} };
    fresh.status = r.run ? r.run.status : 'starting';
    if (fresh.status === 'running' && !r.alive) fresh.status = 'lost';
    if (fresh.status === 'running' && fresh.series.stopped)
      fresh.status = fresh.series.stopped.status;
    state.runs[r.id] = old ? Object.assign(old, fresh) : fresh;
  }
  if (!state.shown.size && state.runs.length) {
    state.first = state.runs.length - 1;
    state.shown.add(state.first);
  }
}

export const first = () => state.runs[state.first];
export const shown = () => [...state.shown].sort((a, b) => a - b)
  .map((i) => state.runs[i]).filter(Boolean);

// ---- numbers as people read them

export function count(v, unit) {
  if (v === null || v === undefined || !isFinite(v)) return '–';
  const steps = ['', 'k', 'M', 'G', 'T', 'P'];
  let i = 0;
  while (Math.abs(v) >= 1000 && i < 5) { v /= 1000; i++; }
  const text = v >= 100 || Number.isInteger(v) ? v.toFixed(0)
    : v.toPrecision(3);
  return text + (unit || i ? ' ' : '') + steps[i] + (unit || '');
}

export function seconds(v) {
  if (v === null || v === undefined || !isFinite(v)) return '–';
  if (v < 1e-3) return (v * 1e6).toPrecision(3) + ' µs';
  if (v < 1) return (v * 1e3).toPrecision(3) + ' ms';
  if (v < 100) return v.toPrecision(3) + ' s';
  const h = Math.floor(v / 3600), m = Math.floor(v / 60) % 60;
  const s = Math.floor(v) % 60;
  return (h ? h + ':' + String(m).padStart(2, '0') : m) + ':' +
    String(s).padStart(2, '0');
}

export const percent = (v) =>
  v === null || v === undefined || !isFinite(v) ? '–'
    : (100 * v).toFixed(v < 0.1 ? 1 : 0) + ' %';

export function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const a = el('a', { href: url, download: name });
  document.body.append(a);
  a.click();
  a.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
