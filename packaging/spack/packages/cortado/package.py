# A recipe for Spack, for the clone that it stands in:
#
#     spack repo add packaging/spack
#     spack install cortado +python ^openmpi
#
# What is committed on the branch main of this clone is built.  To build the
# files as they are: spack dev-build --source-path . cortado@main
# Where the source is published, write its address in place of `git`.
import os

from spack.package import *

try:
    from spack_repo.builtin.build_systems.cmake import CMakePackage
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:  # before Spack 1.0, spack.package has them
    pass


class Cortado(CMakePackage, CudaPackage):
    """Trains Caffe models across machines: reads and writes Caffe's files,
    computes what Caffe computes, on CPUs and GPUs, over MPI."""

    git = "file://" + os.path.abspath(os.path.join(
        os.path.dirname(__file__), "..", "..", "..", ".."))
    license("BSD-2-Clause")

    version("main", branch="main")

    variant("mpi", default=True, description="Train on several ranks")
    variant("onednn", default=True, description="Fast convolutions on CPUs")
    variant("hdf5", default=True, description="HDF5 data and snapshots")
    variant("lmdb", default=True, description="LMDB databases")
    variant("leveldb", default=True, description="LevelDB databases")
    variant("jpeg", default=True, description="JPEG images")
    variant("png", default=True, description="PNG images")
    variant("sodium", default=True, description="Elastic jobs")
    variant("tiff", default=True, description="TIFF images")
    variant("webp", default=True, description="WebP images")
    variant("gif", default=True, description="GIF images")
    variant("python", default=False, description="The Python package caffe")

    depends_on("c", type="build")
    depends_on("cmake@3.22:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("protobuf-c")
    depends_on("openblas threads=pthreads")
    depends_on("mpi", when="+mpi")
    depends_on("onednn@2:3", when="+onednn")
    depends_on("hdf5+hl~mpi", when="+hdf5")
    depends_on("lmdb", when="+lmdb")
    depends_on("leveldb", when="+leveldb")
    depends_on("libjpeg-turbo", when="+jpeg")
    depends_on("libpng", when="+png")
    depends_on("libsodium", when="+sodium")
    depends_on("libtiff", when="+tiff")
    depends_on("libwebp", when="+webp")
    depends_on("giflib", when="+gif")
    depends_on("python@3.8:", when="+python", type=("build", "link", "run"))
    depends_on("py-numpy", when="+python", type=("build", "run"))
    depends_on("py-protobuf", when="+python", type=("build", "run"))
    depends_on("protobuf", when="+python", type="build")
    depends_on("cuda@12.4:", when="+cuda")
    depends_on("cudnn@9:", when="+cuda")
    extends("python", when="+python")

    generator("ninja")

    def cmake_args(self):
        spec = self.spec
        mpi = "OFF"
        if "+mpi" in spec:
            mpi = "mpich" if "mpich" in spec["mpi"].name else "openmpi"
        args = [
            self.define("CORTADO_TESTS", False),
            self.define("CORTADO_MPI", mpi),
            self.define("CORTADO_CUDA", "ON" if "+cuda" in spec else "OFF"),
            self.define_from_variant("CORTADO_PYTHON_PACKAGE", "python"),
        ]
        for name in ("onednn", "hdf5", "lmdb", "leveldb", "jpeg", "png",
                     "tiff", "webp", "gif", "sodium"):
            args.append(self.define_from_variant(
                "CORTADO_" + name.upper(), name))
        if "+cuda" in spec and spec.variants["cuda_arch"].value[0] != "none":
            args.append(self.define("CORTADO_CUDA_ARCHITECTURES", ";".join(
                spec.variants["cuda_arch"].value)))
        if "+python" in spec:
            args.append(self.define("CORTADO_PYTHON",
                                    spec["python"].command.path))
        return args
