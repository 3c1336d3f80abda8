"""What models/generate.py is made of: a prototxt writer, a shape
calculator, and one module a family of nets."""
