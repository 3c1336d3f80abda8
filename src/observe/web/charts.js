// charts.js - curves of all chosen runs, and the page that shows them.
import { el, shown, first, state, save, wholeSeries } from './data.js';

const options = { smooth: 0.6, log: false, time: false };
const groups = [
  { title: 'Loss', pick: (n) => n === 'train loss' || /^test .*loss/.test(n),
    smooth: true },
  { title: 'Test outputs', pick: (n) => /^test /.test(n) && !/loss/.test(n) },
  { title: 'Learning rate', pick: (n) => n === 'learning rate' },
  { title: 'Samples per second', pick: (n) => n === 'samples/s', smooth: true },
  { title: 'Norms', pick: (n) => / norm$/.test(n) },
  { title: 'Seconds left', pick: (n) => n === 'seconds left' },
];
let charts = [];
let marksBox = null;
const css = (name) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// A running mean whose start is not drawn to zero.
export function smooth(y, weight) {
  let mean = 0, sum = 0;
  return y.map((v) => {
    if (v === null) return null;
    mean = weight * mean + (1 - weight) * v;
    sum = weight * sum + (1 - weight);
    return mean / sum;
  });
}

const trainFirst = (curves) => [...curves].sort(([a], [b]) =>
  a.startsWith('test') - b.startsWith('test') || (a < b ? -1 : 1));

// All curves of a group as one table for uPlot, with a line for each.
function table(group) {
  const parts = [], lines = [];
  const dashes = [[], [6, 4], [2, 3], [8, 3, 2, 3]];
  for (const run of shown()) {
    let k = 0;
    for (const [name, c] of trainFirst(run.series.curves)) {
      if (!group.pick(name) || !c.x.length) continue;
      const x = options.time ? c.t.map((t) => t - run.series.begun) : c.x;
      const label = (shown().length > 1 ? run.name + ' ' : '') + name;
      const stroke = shown().length > 1 || !k ? run.color
        : ['#e07b39', '#4f9d69', '#b04a5a'][(k - 1) % 3];
      const dash = shown().length > 1 ? dashes[k % 4] : [];
      const test = name.startsWith('test ');
      if (group.smooth && !test && options.smooth > 0) {
        parts.push([x, c.y]);
        lines.push({ label: label + ' (raw)', stroke: stroke + '55',
          width: 1 });
        parts.push([x, smooth(c.y, options.smooth)]);
      } else {
        parts.push([x, c.y]);
      }
      lines.push({ label, stroke, dash, width: 1.8,
        points: test ? { show: true, size: 5 } : undefined });
      k++;
    }
  }
  return { data: parts.length ? window.uPlot.join(parts) : [[]], lines };
}

// Marks of a run as upright lines; place(m) is where on the x axis.
export function drawMarks(u, run, place) {
  const tone = { lost: css('--bad'), suspect: css('--warn') };
  for (const m of run ? run.series.marks : []) {
    const x = u.valToPos(place(m), 'x', true);
    if (x < u.bbox.left || x > u.bbox.left + u.bbox.width) continue;
    u.ctx.save();
    u.ctx.strokeStyle = tone[m.what] || css('--good');
    u.ctx.setLineDash([4, 3]);
    u.ctx.beginPath();
    u.ctx.moveTo(x, u.bbox.top);
    u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
    u.ctx.stroke();
    u.ctx.restore();
  }
}

const placeOf = (m) => options.time ? m.time - first().series.begun : m.iter;

const short = (v) => v === null || v === undefined ? '–'
  : Math.abs(v) >= 1e5 || (v !== 0 && Math.abs(v) < 1e-3)
    ? v.toExponential(3) : Number(v.toPrecision(5)).toString();

function make(chart, t) {
  const axis = { stroke: css('--dim'), grid: { stroke: css('--line'),
    width: 1 }, ticks: { stroke: css('--line'), width: 1 } };
  const width = Math.max(260, chart.box.clientWidth);
  if (chart.plot) chart.plot.destroy();
  chart.plot = new window.uPlot({
    width, height: 240, cursor: { sync: { key: 'curves' } },
    scales: { x: { time: false },
      y: { distr: options.log ? 3 : 1 } },
    axes: [axis, { ...axis, size: 70, values: (u, v) => v.map((x) =>
      x === null ? '' : short(x)) }],
    series: [{ label: options.time ? 'seconds' : 'iteration' },
      ...t.lines.map((l) => ({ ...l, spanGaps: true,
        value: (u, v) => short(v) }))],
    hooks: { draw: [(u) => drawMarks(u, first(), placeOf)], setSelect: [(u) => {
      chart.zoomed = chart.zoomed || u.select.width > 0;
    }] },
  }, t.data, chart.box);
  chart.zoomed = false;
  chart.plot.over.addEventListener('dblclick', () => {
    chart.zoomed = false;
  });
}

// A logarithm has no place for zero and less.
function positive(t) {
  if (!options.log) return t;
  t.data = t.data.map((c, i) => i ? c.map((v) => v > 0 ? v : null) : c);
  return t;
}

function update(chart, force) {
  const t = positive(table(chart.group));
  const key = JSON.stringify(t.lines.map((l) => l.label + l.stroke)) +
    options.log + options.time;
  chart.card.hidden = !t.lines.length;
  if (!t.lines.length) return;
  if (force || key !== chart.key || !chart.plot) {
    chart.key = key;
    make(chart, t);
  } else {
    chart.plot.setData(t.data, !chart.zoomed);
    if (chart.zoomed) chart.plot.redraw();
  }
}

// A field of a CSV file, as RFC 4180 has it.
export const field = (v) => /[",\r\n]/.test(v)
  ? '"' + String(v).replaceAll('"', '""') + '"' : v;

async function csv(group) {
  const rows = ['run,curve,iteration,time,value'];
  for (const run of shown())
    for (const [name, c] of (await wholeSeries(run)).curves)
      if (group.pick(name))
        c.x.forEach((x, i) => rows.push([field(run.name), field(name), x,
          c.t[i].toFixed(3), c.y[i] === null ? 'nan' : c.y[i]].join(',')));
  return rows.join('\n') + '\n';
}

const escape = (s) => s.replace(/[&<>"]/g, (c) =>
  ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' })[c]);

// What the chart shows now, as a drawing that stands by itself.
function svg(chart) {
  const u = chart.plot, w = 760, h = 420, l = 70, b = 50, r = 20, t = 40;
  const { min: x0, max: x1 } = u.scales.x;
  let { min: y0, max: y1 } = u.scales.y;
  const f = options.log ? Math.log10 : (v) => v;
  const px = (v) => l + (v - x0) / (x1 - x0 || 1) * (w - l - r);
  const py = (v) => h - b - (f(v) - f(y0)) / (f(y1) - f(y0) || 1) * (h - t - b);
  const out = [`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}"` +
    ` font-family="sans-serif" font-size="12"><rect width="${w}" height="${h}"` +
    ` fill="#fff"/><text x="${w / 2}" y="22" text-anchor="middle" ` +
    `font-size="15">${escape(chart.group.title)}</text>`];
  for (let i = 0; i <= 4; i++) {
    const vx = x0 + (x1 - x0) * i / 4;
    const vy = options.log ? y0 * Math.pow(y1 / y0, i / 4)
      : y0 + (y1 - y0) * i / 4;
    out.push(`<path d="M${l} ${py(vy)}H${w - r}" stroke="#ddd"/>` +
      `<text x="${l - 6}" y="${py(vy) + 4}" text-anchor="end">${short(vy)}` +
      `</text><text x="${px(vx)}" y="${h - b + 18}" text-anchor="middle">` +
      `${short(vx)}</text>`);
  }
  u.series.slice(1).forEach((s, i) => {
    if (s.show === false) return;
    let d = '';
    u.data[i + 1].forEach((v, k) => {
      const x = u.data[0][k];
      if (v === null || v === undefined || x < x0 || x > x1) return;
      d += (d ? 'L' : 'M') + px(x).toFixed(1) + ' ' + py(v).toFixed(1);
    });
    const color = typeof s.stroke === 'function' ? s.stroke(u, i + 1)
      : s.stroke;
    out.push(`<path d="${d}" fill="none" stroke="${color}" ` +
      `stroke-width="${s.width || 1.5}"/><text x="${w - r - 4}" ` +
      `y="${t + 14 * i + 8}" text-anchor="end" fill="${color}">` +
      `${escape(s.label)}</text>`);
  });
  return out.join('\n') + '\n</svg>\n';
}

export function marksOf(run) {
  return run.series.marks.slice(-20).reverse().map((m) =>
    el('div', { class: 'mark ' + m.what }, el('b', {}, m.what), ' ',
      el('span', { class: 'dim' }, 'iteration ' + m.iter), ' ' + m.text));
}

function tools() {
  const again = () => charts.forEach((c) => update(c, true));
  const smoothing = el('input', { type: 'range', min: 0, max: 0.99,
    step: 0.01, value: options.smooth, id: 'smoothing',
    oninput: (e) => {
      options.smooth = Number(e.target.value);
      charts.forEach((c) => update(c, c.group.smooth));
    } });
  return el('div', { class: 'tools' },
    el('label', {}, 'Smoothing ', smoothing),
    el('label', {}, el('input', { type: 'checkbox', id: 'logscale',
      checked: options.log, onchange: (e) => {
        options.log = e.target.checked;
        again();
      } }), ' log scale'),
    el('label', {}, el('input', { type: 'checkbox', id: 'bytime',
      checked: options.time, onchange: (e) => {
        options.time = e.target.checked;
        again();
      } }), ' over time'),
    el('span', { class: 'dim' }, 'drag to zoom, double click to see all'));
}

export function open(box) {
  charts = groups.map((group) => {
    const plot = el('div');
    const chart = { group, box: plot };
    const name = group.title.toLowerCase().replace(/ /g, '_');
    chart.card = el('section', { class: 'card', id: 'chart_' + name },
      el('header', {}, el('h2', {}, group.title),
        el('button', { class: 'csv', title: 'every recorded value',
          onclick: async () =>
            save(name + '.csv', 'text/csv', await csv(group)) }, 'CSV'),
        el('button', { class: 'svg', title: 'what is shown now', onclick: () =>
          save(name + '.svg', 'image/svg+xml', svg(chart)) }, 'SVG')),
      plot);
    return chart;
  });
  marksBox = el('section', { class: 'card', hidden: true });
  box.append(tools(), el('div', { class: 'grid' },
    ...charts.map((c) => c.card), marksBox));
}

export async function refresh() {
  const run = first();
  charts.forEach((c) => update(c, false));
  if (!run || !marksBox) return;
  const marks = marksOf(run);
  marksBox.hidden = !marks.length;
  marksBox.replaceChildren(el('h2', {}, 'Marks'), ...marks);
}

addEventListener('resize', () => charts.forEach((c) => {
  if (c.plot && c.box.isConnected)
    c.plot.setSize({ width: Math.max(260, c.box.clientWidth), height: 240 });
}));

// For tests, and for people at the console.
const chartOf = (title) => charts.find((c) => c.group.title === title);
window.cortado = { state, first, field,
  zoomed: (title) => chartOf(title).zoomed,
  plot: (title) => chartOf(title).plot };
