/* commands.c - every command of the program, in one table. */
#include <string.h>

#include "command.h"

/* clang-format off */
const struct command commands[] = {
    { "train", "train or finetune a model",
      "cortado train --solver=SOLVER.prototxt [FLAGS]",
      "Trains the net that the solver names, from the beginning, from a "
      "snapshot or from given weights. SIGINT, SIGTERM and SIGUSR1 end "
      "training after a snapshot, with exit code 4; SIGHUP takes a snapshot "
      "and training goes on; SIGUSR2 traces the next iterations and has ranks "
      "record their last collectives for 'cortado autopsy'. A prototxt is "
      "code: it can name Python to run and files to write, so train only with "
      "prototxts that you trust.",
      cmd_train },
    { "test", "score a model",
      "cortado test --model=MODEL.prototxt --weights=FILE [FLAGS]",
      "Runs the net's TEST phase over batches of its own data and prints the "
      "mean of every output.",
      cmd_test },
    { "classify", "print the likeliest labels of images",
      "cortado classify [FLAGS] DEPLOY.prototxt WEIGHTS MEAN.binaryproto "
      "LABELS IMAGE...",
      "Prints the five likeliest labels of each image.",
      cmd_classify },
    { "time", "time a model layer by layer",
      "cortado time --model=MODEL.prototxt [FLAGS]",
      "Measures how long every layer takes forward and backward, and what "
      "share of the machine's peak that is.",
      cmd_time },
    { "bench", "measure how fast a model trains",
      "cortado bench --model=MODEL.prototxt [FLAGS]",
      "Measures whole training steps and prints the result as JSON.",
      cmd_bench },
    { "summary", "print a model's layers, shapes and sizes",
      "cortado summary [FLAGS] MODEL.prototxt",
      "Prints type, output shape, parameters, multiply-adds and activation "
      "memory of every layer, and the totals.",
      cmd_summary },
    { "net", "check and measure the network between ranks",
      "mpirun -n N cortado net [FLAGS]\n"
      "cortado net --ranks=N [FLAGS]",
      "Checks that the ranks fit together, measures the links between them "
      "and times every way to sum.",
      cmd_net },
    { "plan", "predict a model's training on many ranks",
      "cortado plan [FLAGS] SOLVER_OR_MODEL.prototxt\n"
      "mpirun -n 2 cortado plan [FLAGS] SOLVER_OR_MODEL.prototxt",
      "Trains a few steps here and predicts time, traffic and speed-up of a "
      "step on many ranks, for every road. The links are those between the "
      "ranks that run it, or those that --bandwidth and --latency describe.",
      cmd_plan },
    { "device_query", "show the devices of this machine",
      "cortado device_query [--gpu=IDS]",
      "Prints the processor, its measured peak, and the GPUs.",
      cmd_device_query },
    { "impl", "list the implementations that CORTADO_IMPL can force",
      "cortado impl",
      "Prints the keys and values of the environment variable CORTADO_IMPL, "
      "what each means, and which are in force. The variable is a list of "
      "KEY:VALUE, separated by commas; + between values allows several.",
      cmd_impl },
    { "trace", "explain where a traced iteration spent its time",
      "cortado trace [--iteration=N] TRACE.json",
      "Prints the critical path of an iteration that 'cortado train --trace' "
      "recorded, and which rank waited for which. Perfetto and "
      "chrome://tracing open the same file.",
      cmd_trace },
    { "autopsy", "explain why a run with many ranks stopped",
      "cortado autopsy RUN_FOLDER",
      "Reads what the ranks of 'cortado train --run' recorded when the job "
      "failed, waited for long or got SIGUSR2, and says what each did last, "
      "who did not come, and whether ranks called different things.",
      cmd_autopsy },
    { "jobs", "show who is in an elastic job",
      "cortado jobs [FLAGS] ADDRESS",
      "Asks any process of an elastic job, at HOST:PORT or file:FOLDER, for "
      "its view: ranks, hosts, iteration, who is silent or leaves.",
      cmd_jobs },
    { "join", "add ranks to an elastic job",
      "cortado join [FLAGS] ADDRESS",
      "Starts ranks on this machine and adds them to the running job at "
      "HOST:PORT or file:FOLDER, with the job's own flags, in the folder of "
      "the same name. They get its weights and go on with it.",
      cmd_join },
    { "launch", "start a job on several hosts",
      "cortado launch -H HOST:RANKS,... [FLAGS] -- train FLAGS\n"
      "cortado launch -H HOST:RANKS,... [FLAGS] -- PROGRAM WORDS\n"
      "cortado launch -H HOST:RANKS,... --mpi [FLAGS] -- train FLAGS\n"
      "cortado launch --ranks=N [FLAGS] -- PROGRAM WORDS",
      "Starts ranks on each host below an agent, by ssh, or by srun inside a "
      "Slurm job, and passes signals on to them. They need the program and "
      "the working folder under the same names, and go on if this command is "
      "killed. A rank is 'cortado train', or a program that enters the job by "
      "itself, e.g. python3 and a script with caffe. Without -H this command "
      "is the agent of this machine. With --mpi the job is one of fixed size: "
      "MPI starts it, and starts it again from its newest snapshot, on the "
      "hosts that answer, when it fails.",
      cmd_launch },
    { "top", "watch the ranks of a running job",
      "cortado top [--once] RUN_FOLDER",
      "Shows where every rank of 'cortado train --run' is, how fast, and how "
      "much it waits for others, and refreshes that every second until the "
      "run ends.",
      cmd_top },
    { "draw", "draw a net",
      "cortado draw [FLAGS] MODEL.prototxt OUT.svg",
      "Draws the layers of a net and the blobs between them. The file may "
      "end in .svg, .png (with librsvg) or .dot. Nothing of the net is built, "
      "so its data need not be there.",
      cmd_draw },
    { "plot", "draw the curves of training logs",
      "cortado plot [FLAGS] LOG_OR_RUN_FOLDER... OUT.svg",
      "Draws the losses and test scores of training logs, Caffe's included. "
      "The file may end in .svg or, with librsvg, in .png.",
      cmd_plot },
    { "board", "show runs in a browser",
      "cortado board [--http=ADDRESS] FOLDER...",
      "Serves the live page for the runs in these folders, finished or "
      "running, side by side, and prints its address. A folder is one that "
      "'cortado train --run' wrote, or one that holds such folders.",
      cmd_board },
    { "make_digits", "draw a set of digits to train on",
      "cortado make_digits [FLAGS] FOLDER",
      "Writes databases of drawn digits, FOLDER/digits_train_lmdb and "
      "FOLDER/digits_test_lmdb.",
      cmd_make_digits },
    { "make_shapes", "draw a set of shapes to detect",
      "cortado make_shapes [FLAGS] FOLDER",
      "Writes databases of drawn pictures with boxes for AnnotatedData, "
      "FOLDER/shapes_train_lmdb and FOLDER/shapes_test_lmdb, and "
      "FOLDER/labelmap_shapes.prototxt.",
      cmd_make_shapes },
    { "inspect", "show what is in a file or database",
      "cortado inspect [FLAGS] FILE",
      "FILE is a database, caffemodel, solverstate, binaryproto, HDF5 file, "
      "net or solver prototxt.",
      cmd_inspect },
    { "convert_imageset", "make a database from image files",
      "cortado convert_imageset [FLAGS] ROOTFOLDER/ LISTFILE DB_NAME",
      "Makes the database DB_NAME from the images that LISTFILE names, one "
      "line \"file label\" each. ROOTFOLDER/ is put before every name.",
      cmd_convert_imageset },
    { "convert_annoset", "make a database from images with boxes",
      "cortado convert_annoset [FLAGS] ROOTFOLDER/ LISTFILE DB_NAME",
      "Makes the database DB_NAME, for AnnotatedData layers, from the images "
      "and annotation files that LISTFILE names, one line \"image "
      "annotation\" each. ROOTFOLDER/ is put before every name.",
      cmd_convert_annoset },
    { "get_image_size", "list the sizes of images",
      "cortado get_image_size [FLAGS] ROOTFOLDER/ LISTFILE OUTFILE",
      "Writes a line \"name height width\" for every image that LISTFILE "
      "names first on a line. ROOTFOLDER/ is put before every name.",
      cmd_get_image_size },
    { "convert_mnist_data", "make a database from MNIST's files",
      "cortado convert_mnist_data [FLAGS] IMAGE_FILE LABEL_FILE DB_NAME",
      "Makes the database DB_NAME from a pair of MNIST's files.",
      cmd_convert_mnist_data },
    { "convert_mnist_siamese_data", "make a database of MNIST pairs",
      "cortado convert_mnist_siamese_data [FLAGS] IMAGE_FILE LABEL_FILE "
      "DB_NAME",
      "Makes the database DB_NAME of random pairs of MNIST's images; the "
      "label says whether both show the same digit.",
      cmd_convert_mnist_siamese_data },
    { "convert_cifar_data", "make databases from CIFAR-10's files",
      "cortado convert_cifar_data INPUT_FOLDER OUTPUT_FOLDER lmdb|leveldb",
      "Makes the train and test databases of CIFAR-10 from its binary files.",
      cmd_convert_cifar_data },
    { "compute_image_mean", "compute the mean image of a database",
      "cortado compute_image_mean [FLAGS] INPUT_DB [OUTPUT_FILE]",
      "Writes the mean image of a database as a binaryproto and logs the mean "
      "of each channel.",
      cmd_compute_image_mean },
    { "partition_data", "divide a database between ranks",
      "cortado partition_data [FLAGS] DB N OUT_PREFIX",
      "Deals the records of DB out in turn to OUT_PREFIX_0 .. "
      "OUT_PREFIX_<N-1>, which data_param { source: \"OUT_PREFIX\" mode: "
      "LOCAL } reads on rank 0 .. N-1.",
      cmd_partition_data },
    { "extract_features", "write the values of blobs to databases",
      "cortado extract_features WEIGHTS MODEL.prototxt BLOB[,BLOB...] "
      "DB[,DB...] NUM_BATCHES lmdb|leveldb [CPU|GPU] [DEVICE_ID]",
      "Runs the net's TEST phase for NUM_BATCHES batches and writes what each "
      "blob holds for every sample to its own database.",
      cmd_extract_features },
    { "export", "write a model as ONNX",
      "cortado export [FLAGS] MODEL.prototxt WEIGHTS.caffemodel OUT.onnx",
      "Writes the net of the TEST phase and its weights as an ONNX model of "
      "standard operators. Losses and scores are left out. A layer that ONNX "
      "cannot express is refused by name.",
      cmd_export },
    { "import", "make a Caffe model from ONNX",
      "cortado import [--batch=N] MODEL.onnx OUT.prototxt OUT.caffemodel",
      "Writes the net and the weights of an ONNX model as Caffe has them. "
      "A node that Caffe's layers cannot express is refused by name.",
      cmd_import },
    { "upgrade_net_proto_text", "bring an older net prototxt up to date",
      "cortado upgrade_net_proto_text IN OUT",
      "Reads a net prototxt of any version of Caffe and writes it in today's "
      "form.",
      cmd_upgrade_net_proto_text },
    { "upgrade_net_proto_binary", "bring an older caffemodel up to date",
      "cortado upgrade_net_proto_binary IN OUT",
      "Reads a caffemodel of any version of Caffe and writes it in today's "
      "form.",
      cmd_upgrade_net_proto_binary },
    { "upgrade_solver_proto_text", "bring an older solver up to date",
      "cortado upgrade_solver_proto_text IN OUT",
      "Reads a solver prototxt of any version of Caffe and writes it in "
      "today's form.",
      cmd_upgrade_solver_proto_text },
    { "help", "explain a command, or the program",
      "cortado help [COMMAND | log | environment]\n"
      "cortado help --markdown | --man",
      "Explains a command as 'cortado COMMAND --help' does, the flags of the "
      "log, or the environment variables; or prints everything as the "
      "reference page or the manual page.",
      cmd_help },
};
/* clang-format on */

const int n_commands = sizeof(commands) / sizeof(commands[0]);

const struct command *command_named(const char *name)
{
    for (int i = 0; i < n_commands; i++)
        if (strcmp(name, commands[i].name) == 0)
            return &commands[i];
    return NULL;
}
