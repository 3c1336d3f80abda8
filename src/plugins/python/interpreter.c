/* interpreter.c - libcortado_python.so: an interpreter for programs that
 * have none.
 *
 * The library loads this with dlopen() when a net has a Python layer and no
 * host is there.  It starts the interpreter, imports the package `caffe`,
 * which makes itself the host, and lets go of the interpreter's lock.  The
 * interpreter stays until the process ends.
 *
 * Modules are found on PYTHONPATH, in the interpreter's own folders or those
 * of the virtual environment that VIRTUAL_ENV names, in the package folder
 * beside this library (CT_PYTHON_BESIDE: as built, as installed), and last in
 * the working folder: a file there cannot take the place of a library. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef CT_PYTHON_BESIDE
#define CT_PYTHON_BESIDE "python"
#endif

enum { PATH_BYTES = 4096 };

/* Returns 0, or another number with the reason in `error`. */
__attribute__((visibility("default"))) int cortado_python_start(
    char *error, size_t size);

static int start_interpreter(char *error, size_t size)
{
    const char *venv = getenv("VIRTUAL_ENV");
    char path[PATH_BYTES];
    PyConfig config;
    PyStatus status;

    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0; /* signals are the program's */
    config.parse_argv              = 0;
    status                         = PyStatus_Ok();
    if (venv && venv[0]) {
        snprintf(path, sizeof(path), "%s/bin/python3", venv);
        status = PyConfig_SetBytesString(&config, &config.executable, path);
    }
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (!PyStatus_Exception(status))
        return 0;
    snprintf(error, size, "the Python interpreter does not start: %s",
             status.err_msg ? status.err_msg : "unknown reason");
    return 1;
}

static int add_path(Py_ssize_t at, const char *folder)
{
    PyObject *list = PySys_GetObject("path"); /* borrowed */
    PyObject *text = PyUnicode_DecodeFSDefault(folder);
    int failed     = !list || !text ||
                 PyList_Insert(list, at < 0 ? PyList_Size(list) : at, text);

    Py_XDECREF(text);
    return failed;
}

/* PYTHONPATH comes before the folders beside this library, so that a user's
 * own `caffe` package wins; the working folder comes last. */
static int add_paths(void)
{
    static const char beside[] = CT_PYTHON_BESIDE;
    char folder[PATH_BYTES], path[2 * PATH_BYTES], *slash;
    Dl_info here;

    if (!dladdr((const void *)beside, &here) || !here.dli_fname ||
        !realpath(here.dli_fname, folder))
        return add_path(-1, "");
    slash  = strrchr(folder, '/');
    *slash = '\0';
    for (const char *part = beside; *part;) {
        size_t n = strcspn(part, ":");

        snprintf(path, sizeof(path), "%s/%.*s", folder, (int)n, part);
        if (add_path(-1, path))
            return 1;
        part += n + (part[n] == ':');
    }
    return add_path(-1, "");
}

/* The text of the pending exception into `error`. */
static void describe(const char *doing, char *error, size_t size)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL, *text;
    const char *utf8;

    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    text = value ? PyObject_Str(value) : NULL;
    utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
    snprintf(error, size, "%s: %s: %s", doing,
             type ? ((PyTypeObject *)type)->tp_name : "error",
             utf8 ? utf8 : "unknown reason");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
}

static int import_caffe(char *error, size_t size)
{
    PyObject *module;

    if (add_paths()) {
        describe("cannot set sys.path", error, size);
        return 1;
    }
    module = PyImport_ImportModule("caffe");
    if (!module) {
        describe("cannot import the Python package `caffe` (is it on "
                 "PYTHONPATH?)", error, size);
        return 1;
    }
    Py_DECREF(module);
    return 0;
}

int cortado_python_start(char *error, size_t size)
{
    PyGILState_STATE gil;
    int failed;

    if (!Py_IsInitialized()) {
        if (start_interpreter(error, size))
            return 1;
        failed = import_caffe(error, size);
        (void)PyEval_SaveThread(); /* calls take the lock when they come */
        return failed;
    }
    gil    = PyGILState_Ensure();
    failed = import_caffe(error, size);
    PyGILState_Release(gil);
    return failed;
}
