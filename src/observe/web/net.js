// net.js - the net as a drawing: zoom, drag, and a click for details.
import { el, first, getFile, getLines, count, seconds } from './data.js';

const W = 176, H = 40, DX = 26, DY = 34;
let box = null, side = null, svg = null, net = null, chosen = null;
let cursor = {}, look = null, filters = null, times = null, view = null;

const make = (name, attributes, ...inner) => {
  const e = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...inner);
  return e;
};

// Who wrote what each layer reads: the latest writer before it.
function edges(layers) {
  const writer = new Map();
  const list = layers.map((l) => {
    const from = l.bottoms.map((b) => writer.get(b)).filter((i) =>
      i !== undefined);
    return { from: [...new Set(from)], layer: l };
  });
  // A second pass in order, because in-place layers write what they read.
  writer.clear();
  layers.forEach((l, i) => {
    list[i].from = [...new Set(l.bottoms.map((b) => writer.get(b)).filter(
      (k) => k !== undefined))];
    for (const t of l.tops) writer.set(t, i);
  });
  return list;
}

// Rows by the longest way from a source; places in a row near the parents.
function place(nodes) {
  const rows = [];
  nodes.forEach((n) => {
    n.row = n.from.length ? 1 + Math.max(...n.from.map((i) => nodes[i].row))
      : 0;
    (rows[n.row] = rows[n.row] || []).push(n);
  });
  for (const row of rows) {
    row.forEach((n) => {
      n.want = n.from.length
        ? n.from.reduce((s, i) => s + nodes[i].x, 0) / n.from.length : 0;
    });
    row.sort((a, b) => a.want - b.want);
    let right = -Infinity;
    for (const n of row) {
      n.x = Math.max(n.want, right + W + DX);
      right = n.x;
    }
    const shift = row.reduce((s, n) => s + n.x - n.want, 0) / row.length;
    for (const n of row) n.x -= shift;
  }
  for (const n of nodes) n.y = n.row * (H + DY);
}

const shapeText = (s) => s.join(' × ');

function drawNet() {
  const nodes = edges(net.layers);
  place(nodes);
  const world = make('g', {});
  for (const n of nodes)
    for (const i of n.from) {
      const p = nodes[i], x1 = p.x, y1 = p.y + H / 2, x2 = n.x,
        y2 = n.y - H / 2, m = (y1 + y2) / 2;
      world.append(make('path', { d:
        `M${x1} ${y1}C${x1} ${m} ${x2} ${m} ${x2} ${y2}` }));
    }
  for (const n of nodes) {
    const l = n.layer;
    const g = make('g', { class: 'node' + (l.params.length ? ' param' : ''),
      transform: `translate(${n.x} ${n.y})`, 'data-layer': l.name },
    make('rect', { x: -W / 2, y: -H / 2, width: W, height: H, rx: 6 }),
    make('text', { y: -3 }, l.name.length > 24 ? l.name.slice(0, 23) + '…'
      : l.name),
    make('text', { y: 12, class: 'dim' }, l.type +
      (l.top_shapes.length ? '  ' + shapeText(l.top_shapes[0]) : '')));
    g.addEventListener('click', () => choose(l.name));
    world.append(g);
  }
  svg.replaceChildren(world);
  const xs = nodes.map((n) => n.x), ys = nodes.map((n) => n.y);
  view = { x: Math.min(...xs) - W, y: Math.min(...ys) - H,
    w: Math.max(...xs) - Math.min(...xs) + 2 * W,
    h: Math.max(...ys) - Math.min(...ys) + 2 * H };
  view.all = { ...view };
  // A long net starts at its top, readable.
  const r = svg.getBoundingClientRect();
  if (r.height && view.h / r.height > 1.6) {
    view.h = r.height * 1.2;
    view.w = r.width * 1.2;
    view.x = (Math.min(...xs) + Math.max(...xs)) / 2 - view.w / 2;
  }
  apply();
}

function apply() {
  svg.setAttribute('viewBox', `${view.x} ${view.y} ${view.w} ${view.h}`);
}

function zoom(k, cx, cy) {
  const x = view.x + view.w * cx, y = view.y + view.h * cy;
  view.w *= k;
  view.h *= k;
  view.x = x - view.w * cx;
  view.y = y - view.h * cy;
  apply();
}

function handle() {
  let from = null;
  svg.addEventListener('wheel', (e) => {
    const r = svg.getBoundingClientRect();
    e.preventDefault();
    zoom(e.deltaY > 0 ? 1.15 : 1 / 1.15, (e.clientX - r.left) / r.width,
      (e.clientY - r.top) / r.height);
  }, { passive: false });
  svg.addEventListener('pointerdown', (e) => {
    from = { x: e.clientX, y: e.clientY, vx: view.x, vy: view.y };
  });
  svg.addEventListener('pointermove', (e) => {
    if (!from || !e.buttons) return;
    const r = svg.getBoundingClientRect();
    const k = Math.max(view.w / r.width, view.h / r.height);
    view.x = from.vx - (e.clientX - from.x) * k;
    view.y = from.vy - (e.clientY - from.y) * k;
    apply();
  });
  svg.addEventListener('pointerup', () => { from = null; });
}

function histogram(h) {
  const c = el('canvas', { class: 'histogram', width: 300, height: 80 });
  const g = c.getContext('2d'), most = Math.max(...h.counts) || 1;
  const css = getComputedStyle(document.documentElement);
  g.fillStyle = css.getPropertyValue('--bar1');
  h.counts.forEach((n, i) => {
    const w = 300 / h.counts.length, y = 64 * n / most;
    g.fillRect(i * w, 66 - y, w - 1, y);
  });
  g.fillStyle = css.getPropertyValue('--dim');
  g.font = '10px sans-serif';
  g.fillText(h.min.toPrecision(3), 0, 78);
  g.textAlign = 'right';
  g.fillText(h.max.toPrecision(3), 300, 78);
  return c;
}

// Filters as small pictures, side by side; colour where there are three.
function filterPictures(f) {
  const [n, c, h, w] = f.shape, across = Math.ceil(Math.sqrt(n * 1.6));
  const canvas = el('canvas', { class: 'pixels', id: 'filters',
    title: `${f.param} at iteration ${f.iter}` });
  canvas.width = across * (w + 1);
  canvas.height = Math.ceil(n / across) * (h + 1);
  canvas.style.width = Math.min(340, canvas.width * 6) + 'px';
  const g = canvas.getContext('2d');
  const image = g.createImageData(canvas.width, canvas.height);
  const byte = (i) => parseInt(f.bytes.substr(2 * i, 2), 16);
  for (let k = 0; k < n; k++)
    for (let y = 0; y < h; y++)
      for (let x = 0; x < w; x++) {
        const at = 4 * ((Math.floor(k / across) * (h + 1) + y) *
          canvas.width + (k % across) * (w + 1) + x);
        for (let b = 0; b < 3; b++) {
          // Caffe's channels are blue, green, red.
          const channel = c === 3 ? 2 - b : 0;
          image.data[at + b] = byte(((k * c + channel) * h + y) * w + x);
        }
        image.data[at + 3] = 255;
      }
  g.putImageData(image, 0, 0);
  return canvas;
}

function details() {
  const i = net.layers.findIndex((l) => l.name === chosen), l = net.layers[i];
  if (!l) {
    side.replaceChildren(el('p', { class: 'dim' },
      'Click a layer. Wheel to zoom, drag to move.'));
    return;
  }
  const line = (name, text) => el('tr', {}, el('td', { class: 'word dim' },
    name), el('td', { class: 'word' }, text));
  const parts = [el('h2', {}, l.name), el('table', { id: 'details' },
    line('type', l.type),
    ...l.bottoms.map((b, k) => line('bottom ' + b,
      shapeText(l.bottom_shapes[k]))),
    ...l.tops.map((b, k) => line('top ' + b, shapeText(l.top_shapes[k]))),
    ...l.params.map((p) => line(`parameter ${p.index}`,
      `${shapeText(p.shape)} = ${count(p.count)}, lr ${p.lr_mult}, ` +
      `decay ${p.decay_mult}`)),
    l.forward_flops ? line('work forward', count(l.forward_flops, 'FLOP'))
      : '',
    times && times.layers[i] && times.layers[i][0] ? line('time forward',
      seconds(times.layers[i][0])) : '',
    times && times.layers[i] && times.layers[i][1] ? line('time backward',
      seconds(times.layers[i][1])) : '',
    l.runs_with ? line('runs with', l.runs_with) : '')];
  for (const p of look ? look.params : []) {
    if (p.name.slice(0, p.name.lastIndexOf('[')) !== l.name) continue;
    parts.push(el('h3', {}, `${p.name} at iteration ${look.iter}: norm ` +
      `${p.norm.toPrecision(4)}, mean ${p.values.mean.toPrecision(3)}, ` +
      `std ${p.values.std.toPrecision(3)}`), histogram(p.values));
    if (p.gradients)
      parts.push(el('h3', {}, 'gradient: norm ' +
        p.gradient_norm.toPrecision(4)), histogram(p.gradients));
  }
  if (filters && filters.param === l.name + '[0]')
    parts.push(el('h3', {}, 'filters'), filterPictures(filters));
  side.replaceChildren(...parts);
}

function choose(name) {
  chosen = name;
  for (const g of svg.querySelectorAll('g.node'))
    g.classList.toggle('on', g.dataset.layer === name);
  details();
}

export function open(into) {
  svg = make('svg', { id: 'drawing' });
  side = el('section', { class: 'card', id: 'side' });
  box = el('div', { class: 'beside' }, el('div', {},
    el('div', { class: 'tools' },
      el('button', { id: 'zoomin', onclick: () => zoom(0.8, 0.5, 0.5) }, '+'),
      el('button', { id: 'zoomout', onclick: () => zoom(1.25, 0.5, 0.5) },
        '−'),
      el('button', { id: 'zoomall', onclick: () => {
        view = { ...view.all, all: view.all };
        apply();
      } }, 'all')), svg), side);
  into.append(box);
  net = look = filters = times = null;
  cursor = {};
  handle();
}

export async function refresh() {
  const run = first();
  if (!run || !box) return;
  times = await getFile(run, 'times.json');
  const lines = await getLines(run, 'layers.jsonl', cursor, 1);
  if (lines.length) {
    look = lines[lines.length - 1];
    filters = await getFile(run, 'filters.json');
  }
  if (!net) {
    net = await getFile(run, 'net.json');
    if (!net) return;
    drawNet();
    details();
  } else if (lines.length) {
    details();
  }
}
