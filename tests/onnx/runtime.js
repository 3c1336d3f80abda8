// runtime.js MODEL FOLDER - runs an ONNX model with onnxruntime-node.
//
// FOLDER/inputs.json lists inputs as { name: shape }; the values of input i are
// in FOLDER/in<i>.raw, as little-endian floats.  Outputs are written likewise:
// FOLDER/outputs.json and FOLDER/out<i>.raw.
const fs = require('fs');
const ort = require('onnxruntime-node');

async function main(model, folder) {
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
}

main(process.argv[2], process.argv[3]).catch((error) => {
  console.error(String(error.message || error));
  process.exit(1);
});
