"""Export of trained policies: numpy, ONNX and PyTorch files that run without gemrl."""
