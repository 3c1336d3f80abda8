// runtime.js - runs ONNX models with onnxruntime-node, as asked line by line:
//
//     {"model": "NET.onnx", "folder": "FOLDER"}
//
// FOLDER/inputs.json lists inputs as { name: shape }; the values of input i are
// in FOLDER/in<i>.raw, as little-endian floats.  Outputs are written likewise:
// FOLDER/outputs.json and FOLDER/out<i>.raw.  The answer is a line: "ok", or
// the objection.
const fs = require('fs');
const readline = require('readline');
const ort = require('onnxruntime-node');

async function run(model, folder) {
  const shapes = JSON.parse(fs.readFileSync(folder + '/inputs.json'));
  const session = await ort.InferenceSession.create(
      model, { intraOpNumThreads: 1, graphOptimizationLevel: 'all' });
  const feeds = {};
  Object.keys(shapes).forEach((name, i) => {
    const bytes = fs.readFileSync(folder + '/in' + i + '.raw');
    const copy = new Uint8Array(bytes).buffer;
    feeds[name] = new ort.Tensor('float32', new Float32Array(copy),
                                 shapes[name]);
  });
  const results = await session.run(feeds);
  const outputs = {};
  session.outputNames.forEach((name, i) => {
    const t = results[name];
    const values = Float32Array.from(t.data, Number);
    outputs[name] = t.dims;
    fs.writeFileSync(folder + '/out' + i + '.raw',
                     Buffer.from(values.buffer, values.byteOffset,
                                 values.byteLength));
  });
  fs.writeFileSync(folder + '/outputs.json', JSON.stringify(outputs));
  if (session.release) {
    await session.release();
  }
}

async function main() {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const asked = JSON.parse(line);
    let answer = 'ok';
    try {
      await run(asked.model, asked.folder);
    } catch (error) {
      answer = String(error.message || error).replace(/\s+/g, ' ');
    }
    process.stdout.write(answer + '\n');
  }
}

main();
