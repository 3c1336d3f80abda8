/* flag_table.c - every flag of every command, in one table. */
#include "flag_table.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "comm/coll/coll.h"
#include "comm/transport/transports.h"
#include "dist/codec/codec.h"
#include "dist/sync/sync.h"

#define NETS  "train test time bench plan summary classify"
#define STATES NETS " draw"
#define SETS  "convert_imageset convert_annoset"
#define DBS   SETS " convert_mnist_data make_digits make_shapes"
#define READS "compute_image_mean partition_data"

/* clang-format off */
#define EVERYDAY GROUP_EVERYDAY
#define RANKS    GROUP_RANKS
#define NETWORK  GROUP_NETWORK
#define FAULTS   GROUP_FAULTS
#define EXPERT   GROUP_EXPERT
#define LOG      GROUP_LOG

const struct flag_info flag_table[] = {
    /* Everyday. */
    { "train", "solver", FLAG_STRING, EVERYDAY, "FILE", NULL,
      "the solver prototxt (required)" },
    { "test time bench", "model", FLAG_STRING, EVERYDAY, "FILE", NULL,
      "the net prototxt (required)" },
    { "train", "weights", FLAG_STRING, EVERYDAY, "FILE,...", NULL,
      "start from these caffemodel or HDF5 files; layers match by name" },
    { "test", "weights", FLAG_STRING, EVERYDAY, "FILE", NULL,
      "the trained parameters, caffemodel or HDF5 (required)" },
    { "train", "snapshot", FLAG_STRING, EVERYDAY, "FILE", NULL,
      "resume from this solverstate; 'auto' takes the newest valid one, "
      "auto@SECONDS of those written since then (as of 1970)" },
    { "test", "iterations", FLAG_INT, EVERYDAY, "N", "50",
      "number of batches to score" },
    { "time", "iterations", FLAG_INT, EVERYDAY, "N", "50",
      "number of passes to time" },
    { "bench", "iterations", FLAG_INT, EVERYDAY, "N", NULL,
      "number of steps to measure, instead of --seconds" },
    { "plan", "iterations", FLAG_INT, EXPERT, "N", "5",
      "number of steps to measure before predicting" },
    { "bench", "seconds", FLAG_DOUBLE, EVERYDAY, "SECONDS", "5",
      "how long to measure" },
    { "net", "seconds", FLAG_DOUBLE, EVERYDAY, "SECONDS", "20",
      "how long to measure the ways to sum, about" },
    { "time", "phase", FLAG_STRING, EVERYDAY, "PHASE", "TRAIN",
      "TRAIN, or TEST: forward passes only" },
    { "summary", "phase", FLAG_STRING, EVERYDAY, "PHASE", "TEST",
      "TEST or TRAIN" },
    { NETS, "gpu", FLAG_STRING, EVERYDAY, "IDS", NULL,
      "run on these GPUs: numbers with commas, or 'all'; one rank each" },
    { "device_query", "gpu", FLAG_STRING, EVERYDAY, "IDS", "all",
      "the GPUs to show: a number, or 'all'" },
    { NETS, "precision", FLAG_STRING, EVERYDAY, "WORD", "fp32",
      "how it computes: fp32, bf16 (bf16! on any CPU), or on a GPU also tf32 "
      "or fp16" },
    { NETS, "threads", FLAG_INT, EVERYDAY, "N", "0",
      "CPU threads per rank; 0 means one per core" },
    { "net", "threads", FLAG_INT, EVERYDAY, "N", "0",
      "CPU threads that each rank will use; 0 means one per core" },
    { STATES, "level", FLAG_INT, EVERYDAY, "N", "0",
      "level of the net, for include and exclude rules" },
    { STATES, "stage", FLAG_STRING, EVERYDAY, "NAME,...", NULL,
      "stages of the net, for include and exclude rules" },
    { NETS, "plugin", FLAG_STRING, EVERYDAY, "FILE,...", NULL,
      "load layer types from these shared objects" },
    { "train launch", "sigint_effect", FLAG_STRING, EVERYDAY, "EFFECT", "stop",
      "what SIGINT does: stop, snapshot or none" },
    { "train launch", "sighup_effect", FLAG_STRING, EVERYDAY, "EFFECT",
      "snapshot", "what SIGHUP does: stop, snapshot or none" },
    { "train launch", "sigterm_effect", FLAG_STRING, EVERYDAY, "EFFECT", "stop",
      "what SIGTERM does: stop, snapshot, none, or leave, which is the default "
      "with --elastic" },
    { "train launch", "sigusr1_effect", FLAG_STRING, EVERYDAY, "EFFECT", NULL,
      "what SIGUSR1 does: stop, snapshot, none or leave; without it, what "
      "SIGTERM does. Of a program that launch starts these flags say what its "
      "own handlers do" },
    { "train", "on_nan", FLAG_STRING, EVERYDAY, "ACTION", "stop",
      "when the loss is not finite: stop and name the layer, or continue" },
    { "train", "run", FLAG_STRING, EVERYDAY, "FOLDER", NULL,
      "record the run in this folder: curves, log, plan, TensorBoard events" },
    { "train", "trace", FLAG_STRING, EVERYDAY, "FROM:COUNT", NULL,
      "record COUNT iterations from FROM on, on all ranks, as a file for "
      "Perfetto" },
    { "trace", "iteration", FLAG_INT, EVERYDAY, "N", NULL,
      "the iteration to explain; without it, the longest one" },
    { "train board", "http", FLAG_STRING, EVERYDAY, "ADDRESS", NULL,
      "serve the live page at PORT of this machine, or at HOST:PORT" },
    { "top", "once", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "print the table once and end, as without a terminal" },
    { "draw", "phase", FLAG_STRING, EVERYDAY, "PHASE", "TRAIN",
      "draw the layers of TRAIN, of TEST, or ALL" },
    { "draw", "layout", FLAG_STRING, EVERYDAY, "WHO", "auto",
      "who places the layers: own, graphviz, or auto: graphviz if its library "
      "is on this machine" },
    { "plot", "follow", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "draw again whenever a log has grown, until interrupted" },
    { "plot", "title", FLAG_STRING, EVERYDAY, "TEXT", NULL,
      "title above the curves; without it, the name of the log" },
    { "export", "opset", FLAG_INT, EVERYDAY, "N", "13",
      "version of the operators: 13 or 17" },
    { "export", "batch", FLAG_STRING, EVERYDAY, "N", NULL,
      "batch size, or dynamic; without it, the net's own" },
    { "export", "fold", FLAG_SWITCH, EVERYDAY, NULL, "true",
      "put BatchNorm and Scale into the weights before them; --nofold keeps "
      "them" },
    { "import", "batch", FLAG_INT, EVERYDAY, "N", "1",
      "size of a batch that the model leaves open" },
    { "inspect", "deep", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "decode every image of a database, not only its header" },

    { "help", "markdown", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "print the reference page of all commands and flags" },
    { "help", "man", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "print the manual page" },

    /* Everyday, of the commands that write databases. */
    { DBS, "backend", FLAG_STRING, EVERYDAY, "KIND", "lmdb",
      "kind of database: lmdb or leveldb" },
    { "convert_mnist_siamese_data", "backend", FLAG_STRING, EVERYDAY, "KIND",
      "leveldb", "kind of database: lmdb or leveldb" },
    { READS, "backend", FLAG_STRING, EVERYDAY, "KIND", NULL,
      "kind of database: lmdb or leveldb; without it, found out" },
    { SETS, "gray", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "store one channel instead of three" },
    { SETS, "shuffle", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "store the images in random order" },
    { SETS, "resize_width", FLAG_INT, EVERYDAY, "PIXELS", NULL,
      "scale every image to this width; needs --resize_height" },
    { SETS, "resize_height", FLAG_INT, EVERYDAY, "PIXELS", NULL,
      "scale every image to this height; needs --resize_width" },
    { SETS, "check_size", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "refuse images of different sizes" },
    { SETS, "encoded", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "store compressed image files instead of pixels" },
    { SETS, "encode_type", FLAG_STRING, EVERYDAY, "TYPE", NULL,
      "compress as png or jpg; without it, as the name of the file says" },
    { "make_digits", "train", FLAG_INT, EVERYDAY, "N", "10000",
      "number of training images" },
    { "make_digits", "test", FLAG_INT, EVERYDAY, "N", "2000",
      "number of test images" },
    { "make_digits", "form", FLAG_STRING, EVERYDAY, "FORM", "gray",
      "gray (1x28x28), pairs (2x28x28) or color (3x32x32)" },
    { "make_digits", "images", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "write PNG files and a list instead of a database" },
    { "make_shapes", "train", FLAG_INT, EVERYDAY, "N", "2000",
      "number of training pictures" },
    { "make_shapes", "test", FLAG_INT, EVERYDAY, "N", "400",
      "number of test pictures" },
    { "make_shapes", "side", FLAG_INT, EVERYDAY, "PIXELS", "96",
      "width and height of a picture" },
    { "make_shapes", "images", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "write PNG and XML files and a list instead of a database" },
    { "convert_annoset", "anno_type", FLAG_STRING, EVERYDAY, "KIND",
      "detection", "detection: boxes; classification: a label per image" },
    { "convert_annoset", "label_type", FLAG_STRING, EVERYDAY, "FORM", "xml",
      "form of the annotation files: xml (VOC), json (COCO) or txt" },
    { "convert_annoset", "label_map_file", FLAG_STRING, EVERYDAY, "FILE",
      NULL, "label map: the label of every name" },
    { "convert_annoset", "check_label", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "accepted: label maps are always checked" },
    { "convert_annoset", "min_dim", FLAG_INT, EVERYDAY, "PIXELS", NULL,
      "scale the shorter side to this length, and keep the shape" },
    { "convert_annoset", "max_dim", FLAG_INT, EVERYDAY, "PIXELS", NULL,
      "longest side after scaling" },
    { "get_image_size", "name_id_file", FLAG_STRING, EVERYDAY, "FILE", NULL,
      "write the id of an image instead of its name; lines are \"name id\"" },
    { "make_digits make_shapes " SETS " convert_mnist_siamese_data", "seed",
      FLAG_INT, EVERYDAY, "N", "1", "seed of the random draws" },

    /* Ranks. */
    { "join launch", "ranks", FLAG_INT, RANKS, "N", "1",
      "ranks that start on this machine" },
    { "join", "threads", FLAG_INT, EVERYDAY, "N", "0",
      "CPU threads per rank; 0 means as many as the job says" },
    { "launch", "hosts", FLAG_STRING, EVERYDAY, "HOST:RANKS,...", NULL,
      "where to start, and how many ranks; -H is the same" },
    { "launch", "port", FLAG_INT, EVERYDAY, "N", NULL,
      "the port at which they meet on the first host; without it a free one "
      "if that is this host, else 29400" },
    { "jobs", "json", FLAG_SWITCH, EVERYDAY, NULL, NULL,
      "print JSON in place of a table" },
    { "train", "ranks", FLAG_STRING, RANKS, "N", NULL,
      "start N ranks on this machine, through mpirun; 'auto' measures which "
      "number of ranks and threads is fastest, and takes it" },
    { "net", "ranks", FLAG_INT, RANKS, "N", NULL,
      "start N ranks on this machine, through mpirun" },
    { "plan", "ranks", FLAG_STRING, RANKS, "N,...", "1 to 10000",
      "numbers of ranks to predict for" },
    { "plan", "ranks_per_host", FLAG_INT, RANKS, "N", "1",
      "number of ranks on each host" },
    { "train plan", "batch", FLAG_STRING, RANKS, "MEANING", "per_rank",
      "batch_size counts samples per_rank, or global: divided by the ranks" },
    { "train", "shares", FLAG_STRING, RANKS, "HOW", "even",
      "divide a batch between ranks: even, by speed, or weights like 2:1:1" },
    { "train", "data", FLAG_STRING, RANKS, "MODE", "shared",
      "shared: every rank reads its part; root: rank 0 reads for all; "
      "local: rank r reads SOURCE_r" },
    { "train", "sync", FLAG_STRING, RANKS, "MODE", "bsp",
      "how ranks wait for each other:" },
    { "train", "staleness", FLAG_INT, RANKS, "N", "0",
      "with ssp and --groups: iterations a rank may lead the slowest" },
    { "train", "local_steps", FLAG_INT, RANKS, "N", "8",
      "with local: iterations between two averages of the weights" },
    { "train", "groups", FLAG_INT, RANKS, "N", "1",
      "split the ranks into N groups, in step inside, bounded lead between" },
    { "train", "servers", FLAG_INT, RANKS, "N", "0",
      "use the last N ranks as dedicated parameter servers" },
    { "train", "sync_bn", FLAG_MAYBE, RANKS, NULL, "off",
      "BatchNorm uses the samples of all ranks" },
    { "train", "canonical", FLAG_MAYBE, RANKS, NULL, "off",
      "the same bits for any number of ranks; needs --parts" },
    { "train", "parts", FLAG_INT, RANKS, "N", NULL,
      "with --canonical: micro-batches per iteration, over all ranks" },
    { "train", "explain", FLAG_SWITCH, RANKS, NULL, NULL,
      "print what ranks will do and why, and do not train; without --solver, "
      "what goes together" },
    { "train", "rank_log", FLAG_STRING, RANKS, "PREFIX", NULL,
      "every rank writes a whole log to PREFIX.RANK" },

    /* Network. */
    { "train", "road", FLAG_STRING, NETWORK, "ROAD", "auto",
      "how gradients travel: auto, allreduce, factors, ps or sharded" },
    { "train", "reduce", FLAG_STRING, NETWORK, "HOW", "auto",
      "how ranks sum:" },
    { "plan", "reduce", FLAG_STRING, NETWORK, "HOW", "auto",
      "how the ranks planned for sum:" },
    { "train net", "transport", FLAG_STRING, NETWORK, "NAME", "auto",
      "what carries messages between ranks:" },
    { "train plan", "compress", FLAG_STRING, NETWORK, "HOW", "none",
      "shorten gradients:" },
    { "train", "bandwidth", FLAG_STRING, NETWORK, "RATE", NULL,
      "send at most this much per second and rank, e.g. 100mbit; the rest "
      "waits, or with RATE:all the step" },
    { "plan", "bandwidth", FLAG_STRING, NETWORK, "RATE", "measured",
      "bandwidth of a host's link, e.g. 10gbit" },
    { "plan", "latency", FLAG_STRING, NETWORK, "TIME", "30us",
      "time that an empty message takes, e.g. 5us" },
    { "plan", "local_bandwidth", FLAG_STRING, NETWORK, "RATE", "measured",
      "bandwidth between ranks of one host, e.g. 10GB" },
    { "train plan", "overlap", FLAG_MAYBE, NETWORK, NULL, "on",
      "send gradients during backward; --nooverlap sends them after it" },

    /* Faults. */
    { "train", "deadline", FLAG_DOUBLE, FAULTS, "SECONDS", "0",
      "end an iteration without the ranks that are this late; 0 waits for "
      "all" },
    { "train", "patience", FLAG_DOUBLE, FAULTS, "FACTOR", "0",
      "end an iteration after FACTOR times its usual duration; 0 waits for "
      "all" },
    { "train", "quorum", FLAG_DOUBLE, FAULTS, "SHARE", "0.5",
      "share of the samples that an iteration needs at its deadline" },
    { "train", "late", FLAG_STRING, FAULTS, "ACTION", "discard",
      "a gradient after the deadline: discard it, fold it in later, or end "
      "with an error" },
    { "train", "heartbeat", FLAG_DOUBLE, FAULTS, "SECONDS", "10",
      "waiting time after which the log names the rank that is waited for" },
    { "train", "stall", FLAG_DOUBLE, FAULTS, "SECONDS", "300",
      "end the job when the rank that is waited for stands still this long" },
    { "train", "guard_interval", FLAG_INT, FAULTS, "N", "100",
      "check every N iterations that all ranks hold equal parameters; 0 "
      "never" },

    { "train launch", "elastic", FLAG_STRING, FAULTS, "MIN:MAX", NULL,
      "processes come and go: train with so many at least and at most, "
      "without mpirun; --ranks of them start here" },
    { "train launch", "rendezvous", FLAG_STRING, FAULTS, "ADDRESS,...", NULL,
      "where the processes of an elastic job meet: HOST:PORT of any of them, "
      "or file:FOLDER on a disk that all see" },
    { "train join jobs launch", "secret_file", FLAG_STRING, FAULTS, "FILE",
      "~/.cortado/secret",
      "what the processes of an elastic job know and nobody else; it is made "
      "where there is none" },
    { "train launch", "suspect", FLAG_DOUBLE, FAULTS, "SECONDS", "3",
      "an elastic job goes on without a process that is silent this long" },
    { "train launch", "orphan", FLAG_DOUBLE, FAULTS, "SECONDS", "60",
      "a process of an elastic job that is cut off from the others this long "
      "ends" },
    { "train launch", "restarts", FLAG_INT, FAULTS, "N",
      "10 with --elastic and launch, else 0",
      "how often a process of an elastic job that died is started again, or, "
      "with --ranks and --mpi, a whole job from its newest snapshot; after ten "
      "minutes without a death the count begins anew" },
    { "launch", "mpi", FLAG_SWITCH, FAULTS, NULL, NULL,
      "a job of fixed size: MPI starts its ranks, and, when it fails, starts "
      "it again on the hosts that are left" },
    { "launch", "min_ranks", FLAG_INT, FAULTS, "N", "1",
      "with --mpi: wait for hosts while fewer ranks than these could start" },

    /* Expert. */
    { "train plan", "bucket_bytes", FLAG_DOUBLE, EXPERT, "BYTES", "4194304",
      "how much gradient travels together" },
    { "train plan", "slice_bytes", FLAG_DOUBLE, EXPERT, "BYTES", "2097152",
      "longest piece that an urgent gradient waits for; 0 sends all in "
      "order" },
    { "train", "redecide", FLAG_INT, EXPERT, "N", "100",
      "iterations between two choices of roads; 0 keeps the first choice" },
    { "train", "measure", FLAG_DOUBLE, EXPERT, "SECONDS",
      "2 with --ranks=auto",
      "with --ranks=auto: how long each number of ranks is measured; else "
      "train for so long, print samples/s, and write nothing" },
    { "time", "plan", FLAG_SWITCH, EXPERT, NULL, NULL,
      "print layouts, conversions and memory, and time nothing" },
    { "bench", "layers", FLAG_SWITCH, EXPERT, NULL, NULL,
      "time each layer as well" },
    { "bench", "cpu", FLAG_SWITCH, EXPERT, NULL, NULL,
      "with --layers: processor time instead of wall-clock time" },
    { "net", "quick", FLAG_SWITCH, EXPERT, NULL, NULL,
      "do not measure the ways to sum" },
    { "plan", "flops", FLAG_STRING, EXPERT, "SPEED", "measured",
      "speed of the planned machine, e.g. 500gflops" },
    { "plan", "svg", FLAG_STRING, EXPERT, "FILE", NULL,
      "draw the speed-up into this file" },
    { "plan", "json", FLAG_STRING, EXPERT, "FILE", NULL,
      "write all numbers to this file" },

    /* The log. */
    { "", "minloglevel", FLAG_INT, LOG, "LEVEL", "0",
      "log nothing below this: 0 information, 1 warnings, 2 errors" },
    { "", "log_dir", FLAG_STRING, LOG, "FOLDER", NULL,
      "also write log files there, named and headed as glog's, one for each "
      "severity" },
    { "", "alsologtostderr", FLAG_SWITCH, LOG, NULL, "on",
      "with log files: log to standard error as well; "
      "--noalsologtostderr leaves it to the files" },
    { "", "stderrthreshold", FLAG_INT, LOG, "LEVEL", "2",
      "with --noalsologtostderr: lines of this level still go to standard "
      "error" },
    { "", "logtostderr", FLAG_SWITCH, LOG, NULL, NULL,
      "log to standard error only, and write no files" },
    { "", "colorlogtostderr", FLAG_SWITCH, LOG, NULL, NULL,
      "color warnings and errors on a terminal" },
    { "", "log_prefix", FLAG_SWITCH, LOG, NULL, "on",
      "start each line with severity, time, thread and place" },
    { "", "logbufsecs", FLAG_INT, LOG, "SECONDS", NULL,
      "accepted for old scripts; lines are written at once" },
    { "", "v", FLAG_INT, LOG, "LEVEL", NULL,
      "accepted for old scripts; there are no verbose lines" },
    { "", "vmodule", FLAG_STRING, LOG, "LIST", NULL,
      "accepted for old scripts; there are no verbose lines" },
};
/* clang-format on */

const int n_flag_table = sizeof(flag_table) / sizeof(flag_table[0]);

static const struct {
    const char *name, *about;
} groups[N_FLAG_GROUPS] = {
    [GROUP_EVERYDAY] = { "Everyday", "what most runs need" },
    [GROUP_RANKS]    = { "Ranks", "how ranks divide the work" },
    [GROUP_NETWORK]  = { "Network", "how gradients travel between ranks" },
    [GROUP_FAULTS]   = { "Faults", "slow, silent and lost ranks" },
    [GROUP_EXPERT]   = { "Expert", "measuring and tuning by hand" },
    [GROUP_LOG]      = { "Log", "glog's flags, which every command takes" },
};

const char *flag_group_name(enum flag_group group)
{
    return groups[group].name;
}

const char *flag_group_about(enum flag_group group)
{
    return groups[group].about;
}

/* NCCL is no line of coll.def: it sums in the memory of GPUs. */
static void add_choices(const struct flag_info *f, struct ct_text *out)
{
    if (strcmp(f->name, "reduce") == 0)
        ct_allreduce_choices(flag_is_of(f, "train") ? "nccl" : NULL, out);
    else if (strcmp(f->name, "compress") == 0)
        dist_codec_choices(out);
    else if (strcmp(f->name, "transport") == 0)
        ct_transport_choices(out);
    else if (strcmp(f->name, "sync") == 0)
        dist_sync_list(out);
}

const char *flag_help(const struct flag_info *f, char *room, size_t bytes)
{
    const bool asks        = f->help[strlen(f->help) - 1] == ':';
    struct ct_text choices = { 0 };

    if (asks)
        add_choices(f, &choices);
    snprintf(room, bytes, "%s%s%s", f->help, asks ? " " : "",
             choices.s ? choices.s : "");
    ct_text_fini(&choices);
    return room;
}

bool flag_is_of(const struct flag_info *f, const char *command)
{
    const size_t n = strlen(command);

    if (!f->commands[0])
        return true;
    for (const char *at = f->commands; (at = strstr(at, command)); at += n)
        if ((at == f->commands || at[-1] == ' ') &&
            (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}
