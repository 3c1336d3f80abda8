// app.js - the frame of the page: runs, tabs, buttons, and the clock.
import { $, el, state, first, shown, refreshRuns, refreshSeries, get, post,
  count, seconds } from './data.js';
import * as curves from './charts.js';
import * as ranks from './ranks.js';
import * as layers from './layers.js';
import * as net from './net.js';
import * as roads from './roads.js';
import * as log from './log.js';

const pages = { curves, ranks, layers, net, roads, log };
let page = null;
let failures = 0;

function notice(text) {
  $('notice').textContent = text;
  $('notice').hidden = !text;
}

// ---- above the tabs

function showStatus() {
  const run = first();
  if (!run) {
    $('status').replaceChildren('no run yet');
    return;
  }
  const last = run.series.last;
  const parts = [el('span', { class: 'pill ' + run.status }, run.status)];
  const fact = (value, name) =>
    parts.push(el('span', {}, el('b', {}, value), ' ', el('small', {}, name)));
  if (last && run.run) {
    fact(`${last.iter + 1} / ${run.run.max_iter}`, 'iterations');
    fact(last.loss === null ? 'nan' : last.loss.toPrecision(4), 'loss');
    fact(last.rate.toPrecision(3), 'rate');
    if (run.status === 'running') {
      fact(count(last.samples_per_second), 'samples/s');
      fact(seconds(last.seconds_left), 'left');
    }
    $('progress').firstElementChild.style.width =
      100 * (last.iter + 1) / run.run.max_iter + '%';
  }
  if (run.run && run.run.why)
    parts.push(el('span', { class: 'dim' }, run.run.why));
  $('status').replaceChildren(...parts);
  for (const name of ['snapshot', 'trace', 'stop'])
    $(name).hidden = !state.control || run.id !== 0 ||
      run.status !== 'running';
  document.title = (last ? (last.iter + 1) + ' · ' : '') + run.name +
    ' · Cortado';
}

let runsShown = '';
function showRuns() {
  const key = JSON.stringify([state.runs.map((r) => [r.name, r.status]),
    [...state.shown], state.first]);
  if (key === runsShown) return; // a click is not to lose its box
  runsShown = key;
  const list = state.runs.map((run, i) => el('label',
    { class: i === state.first ? 'first' : '',
      title: run.run ? run.run.command : '' },
    el('input', { type: 'checkbox', checked: state.shown.has(i),
      onchange: (e) => choose(i, e.target.checked) }),
    colorDot(run.color), run.name, ' ',
    el('small', { class: 'dim' }, run.status)));
  $('runs').replaceChildren(...list);
}

function colorDot(color) {
  const i = el('i');
  i.style.background = color;
  return i;
}

function choose(i, on) {
  if (on) {
    state.shown.add(i);
    state.first = i;
  } else {
    state.shown.delete(i);
    if (!state.shown.size) state.shown.add(i);
    if (!state.shown.has(state.first)) state.first = [...state.shown][0];
  }
  open();
  tick();
}

// ---- tabs

function open() {
  const name = location.hash.slice(1).split('?')[0];
  page = pages[name] || curves;
  for (const a of document.querySelectorAll('#tabs a'))
    a.classList.toggle('on', pages[a.hash.slice(1)] === page);
  $('page').replaceChildren();
  page.open($('page'));
  page.refresh().catch(failed);
}

// ---- buttons

// As the system has it, the opposite of that, the same whatever it has.
function themes() {
  const root = document.documentElement;
  const set = (t) => {
    if (t) root.dataset.theme = t;
    else delete root.dataset.theme;
    $('theme').title = 'now: ' + (t || 'as the system has it');
  };
  set(localStorage.getItem('theme'));
  $('theme').addEventListener('click', () => {
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    const all = dark ? ['', 'light', 'dark'] : ['', 'dark', 'light'];
    const t = all[(all.indexOf(root.dataset.theme || '') + 1) % 3];
    set(t);
    localStorage.setItem('theme', t);
    open();
  });
}

function action(name, said, sure) {
  const button = $(name);
  let asked = false;
  const calm = () => {
    asked = false;
    button.classList.remove('sure');
    button.textContent = name[0].toUpperCase() + name.slice(1);
  };
  button.addEventListener('click', async () => {
    if (sure && !asked) {
      asked = true;
      button.classList.add('sure');
      button.textContent = 'Really stop?';
      setTimeout(calm, 4000);
      return;
    }
    calm();
    try {
      await post('/api/runs/0/' + name);
      notice(said);
    } catch (e) {
      notice('That did not work: ' + e.message);
    }
    setTimeout(() => notice(''), 4000);
  });
}

async function buttons() {
  const me = await (await get('/api/me')).json();
  state.control = me.control && me.token;
  if (!state.control) return;
  action('snapshot', 'A snapshot follows the current iteration.', false);
  action('trace', 'Three iterations are recorded as trace-N.json in the run ' +
    'folder.', false);
  action('stop', 'The run stops after a snapshot.', true);
}

// ---- the clock

function failed(e) {
  failures++;
  if (e.status === 401)
    notice('Open the address with its token, as the program printed it.');
  else if (failures > 2)
    notice('The server does not answer. What is here stays.');
}

let ticking = false;
async function tick() {
  if (ticking || document.hidden) return;
  ticking = true;
  try {
    await refreshRuns();
    await Promise.all(shown().map(refreshSeries));
    if (!page) open();
    showRuns();
    showStatus();
    await page.refresh();
    if (failures) notice('');
    failures = 0;
  } catch (e) {
    failed(e);
  } finally {
    ticking = false;
  }
}

themes();
addEventListener('hashchange', open);
document.addEventListener('visibilitychange', tick);
buttons().catch(failed);
tick();
setInterval(tick, 1000);
