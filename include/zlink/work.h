/*
 * zlink/work.h: work off the turn: long computing, and input or output that somebody else does.
 *
 * A handler that computes for long keeps a worker from every other Spot, and one that blocks in a system
 * call keeps it for nothing. Here it hands such work over and waits for the result as it would for a
 * reply; the verbs are those of zlink/call.h, and so is what each of them does with the turn:
 *
 *   zlink_cpu_work_*   runs a function on one of the node's CPU workers. They are started when there is
 *                      work and end when there has been none for a while (cpu_workers_* in the
 *                      configuration); what finds none free waits in a bounded queue.
 *   zlink_io_work_*    calls a function that begins something and returns at once; whoever sees its end
 *                      (a client library's thread, an event loop) tells it with zlink_io_work_complete().
 *                      Meanwhile it holds no thread, and full CPU workers do not keep it back.
 *
 * Whose memory it is. The input is copied when the call is made. The work reads that copy and writes to
 * an output of its own, zeroed, and the node keeps both until the work has ended, also where its time is
 * over and the handler has long gone on. The output is copied to the handler's, on the handler's turn,
 * only where the call ends with ZLINK_OK. So input and output may stand on the handler's stack, but the
 * output of a `_then` call must live until its continuation has run (zlink_turn_alloc). Put no pointer
 * to a Spot's state or to a handler's memory into an input: other turns change it meanwhile.
 *
 * How a call ends. Exactly once; what the work does after its time is dropped.
 *   ZLINK_INVALID_OPERATION  not allowed here (as in zlink/call.h); nothing was begun
 *   ZLINK_CAPACITY_EXCEEDED  the CPU workers' queue or the number of I/O works is full, or there is no
 *                            memory; nothing was begun
 *   ZLINK_DEADLINE_EXCEEDED  the time was over; the work may still be running, and its token says stop
 *   ZLINK_SHUTTING_DOWN      the node or the owner closed before the work was begun
 *   any other                what the work returned; ZLINK_INTERNAL_FAILURE for a number that is no status
 *
 * Work runs on no turn: it makes no calls, and a turn that it got hold of answers
 * ZLINK_INVALID_OPERATION.
 */
#ifndef ZLINK_WORK_H
#define ZLINK_WORK_H

#include <zlink/call.h>
#include <zlink/stop_token.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An input, and an output, have at most so many bytes. */
#define ZLINK_WORK_BYTES_MAX ((size_t)1 << 20)

/* ---- CPU work ---- */

/* The form that the library keeps the function in; ZLINK_CPU_WORK checks the real one. */
typedef zlink_status_t (*zlink_cpu_work_function_t)(const void *input, void *output, const zlink_stop_token_t *stop);

/* What to run. Made by ZLINK_CPU_WORK or ZLINK_CPU_WORK_WITHIN; by hand where there is no input or no
 * output (NULL with 0 bytes). */
typedef struct zlink_cpu_work {
    zlink_cpu_work_function_t function;
    const void *input;
    size_t input_bytes;
    void *output;
    size_t output_bytes;
    uint32_t timeout_ms; /* waiting for a CPU worker included, 1..INT32_MAX; 0 = the node's request_timeout */
} zlink_cpu_work_t;

/* ZLINK_CPU_WORK(Maze, Route, find_route, &maze, &route): run
 *     zlink_status_t find_route(const Maze *input, Route *output, const zlink_stop_token_t *stop);
 * Both types are plain structs. */
#define ZLINK_CPU_WORK(INPUT, OUTPUT, FUNCTION, INPUT_POINTER, OUTPUT_POINTER)                                         \
    ZLINK_CPU_WORK_WITHIN(INPUT, OUTPUT, FUNCTION, INPUT_POINTER, OUTPUT_POINTER, 0)

/* The same with a time limit of its own in milliseconds. */
#define ZLINK_CPU_WORK_WITHIN(INPUT, OUTPUT, FUNCTION, INPUT_POINTER, OUTPUT_POINTER, TIMEOUT_MS)                      \
    ((zlink_cpu_work_t){                                                                                               \
        (zlink_cpu_work_function_t) _Generic((FUNCTION),                                                               \
                                             zlink_status_t(*)(const INPUT *, OUTPUT *, const zlink_stop_token_t *)    \
                                             : (FUNCTION)),                                                            \
        _Generic((INPUT_POINTER), INPUT * : (INPUT_POINTER), const INPUT * : (INPUT_POINTER)), sizeof(INPUT),         \
        _Generic((OUTPUT_POINTER), OUTPUT * : (OUTPUT_POINTER)), sizeof(OUTPUT), (TIMEOUT_MS)})

ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_cpu_work_async(zlink_turn_t *turn, zlink_cpu_work_t work);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_cpu_work_yield(zlink_turn_t *turn, zlink_cpu_work_t work);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_cpu_work_async_then(zlink_turn_t *turn, zlink_cpu_work_t work,
                                                                  zlink_then_t then, void *context);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_cpu_work_yield_then(zlink_turn_t *turn, zlink_cpu_work_t work,
                                                                  zlink_then_t then, void *context);

/* ---- I/O work ---- */

/* One I/O work that has begun, from `start` until it is completed. */
typedef struct zlink_io_completion zlink_io_completion_t;

/* Tells the end, from any thread (`start` included), exactly once for each `start` that returned
 * ZLINK_OK. Input, output, token and `completion` are gone when it returns. A late end is dropped. */
ZLINK_API void zlink_io_work_complete(zlink_io_completion_t *completion, zlink_status_t status);

/* Begins the work, on the handler's turn; it must not block. `input`, `output` and `stop` may be used
 * until the work is completed. Anything but ZLINK_OK: nothing has begun, zlink_io_work_complete() is not
 * called, and the call ends with that status. (A completion of what has not begun, or a second one, ends the process
 * with an assertion: there would be nobody left to tell.) */
typedef zlink_status_t (*zlink_io_work_start_t)(const void *input, void *output, const zlink_stop_token_t *stop,
                                                zlink_io_completion_t *completion);

/* What to begin. Made by ZLINK_IO_WORK or ZLINK_IO_WORK_WITHIN; by hand where there is no input or no
 * output (NULL with 0 bytes). */
typedef struct zlink_io_work {
    zlink_io_work_start_t start;
    const void *input;
    size_t input_bytes;
    void *output;
    size_t output_bytes;
    uint32_t timeout_ms; /* 1..INT32_MAX; 0 = the node's request_timeout */
} zlink_io_work_t;

/* ZLINK_IO_WORK(Query, Rows, begin_query, &query, &rows): begin with
 *     zlink_status_t begin_query(const Query *input, Rows *output, const zlink_stop_token_t *stop,
 *                                zlink_io_completion_t *completion); */
#define ZLINK_IO_WORK(INPUT, OUTPUT, START, INPUT_POINTER, OUTPUT_POINTER)                                             \
    ZLINK_IO_WORK_WITHIN(INPUT, OUTPUT, START, INPUT_POINTER, OUTPUT_POINTER, 0)

/* The same with a time limit of its own in milliseconds. */
#define ZLINK_IO_WORK_WITHIN(INPUT, OUTPUT, START, INPUT_POINTER, OUTPUT_POINTER, TIMEOUT_MS)                          \
    ((zlink_io_work_t){                                                                                                \
        (zlink_io_work_start_t) _Generic((START),                                                                      \
                                         zlink_status_t(*)(const INPUT *, OUTPUT *, const zlink_stop_token_t *,        \
                                                           zlink_io_completion_t *)                                    \
                                         : (START)),                                                                   \
        _Generic((INPUT_POINTER), INPUT * : (INPUT_POINTER), const INPUT * : (INPUT_POINTER)), sizeof(INPUT),         \
        _Generic((OUTPUT_POINTER), OUTPUT * : (OUTPUT_POINTER)), sizeof(OUTPUT), (TIMEOUT_MS)})

ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_io_work_async(zlink_turn_t *turn, zlink_io_work_t work);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_io_work_yield(zlink_turn_t *turn, zlink_io_work_t work);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_io_work_async_then(zlink_turn_t *turn, zlink_io_work_t work,
                                                                 zlink_then_t then, void *context);
ZLINK_API ZLINK_MUST_USE zlink_status_t zlink_io_work_yield_then(zlink_turn_t *turn, zlink_io_work_t work,
                                                                 zlink_then_t then, void *context);

#ifdef __cplusplus
}
#endif

#endif
