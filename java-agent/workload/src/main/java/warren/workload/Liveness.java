package warren.workload;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.locks.LockSupport;

/**
 * What is asked after the test, once with the dead left dead and once when all is healed: does each living node serve a new session, and does each
 * client of the test get on? {@link Runner} asks at DEGRADED and HEALED; what the answers mean is the liveness checker's business.
 */
final class Liveness {
    /** So soon Warren starts a node that has ended by itself when all is healed. */
    private static final long STARTED_NS = 2_000_000_000L;
    private static final long RETRY_NS = 10_000_000L;

    private final Runner run;
    private final long serveNs;

    /** @param serveMs how long a node or a client is asked again and again before it counts as not served */
    Liveness(Runner run, long serveMs) {
        this.run = run;
        serveNs = serveMs * 1_000_000L;
    }

    private interface Question {
        /** @return null or the last failure */
        String ask();
    }

    private interface Answer {
        void tell(String failure);
    }

    /**
     * A question in a thread of its own. It is answered once, by whoever comes first: its thread, or {@link #await}, which has waited for it
     * long enough. What an operation that is under way still brings is no answer then: the next thing that Warren does may be what serves it.
     */
    private final class Asked {
        private final Client client;
        private final Answer answer;
        private final AtomicBoolean answered = new AtomicBoolean();
        private final Thread thread;

        Asked(String name, String what, Client client, Question question, Answer answer, Runnable behind) {
            this.client = client;
            this.answer = answer;
            thread = Runner.start(name, () -> {
                try {
                    answer(question.ask());
                    // Only then: to close a session takes its own time.
                    behind.run();
                } catch (Throwable t) {
                    // An error in a library: nobody was asked.
                    if (answered.compareAndSet(false, true)) {
                        run.observations.incomplete(what, name + ": " + t);
                    }
                }
            });
        }

        /** @return false when somebody has answered before */
        private boolean answer(String failure) {
            boolean first = answered.compareAndSet(false, true);
            if (first) {
                answer.tell(failure);
            }
            return first;
        }
    }

    /** Waits until all have answered, or until the limit, and answers for those that have not, whose operations are cut off. */
    private static void await(List<Asked> all, long limit) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (Asked asked : all) {
            threads.add(asked.thread);
        }
        Runner.join(threads, limit);
        for (Asked asked : all) {
            if (asked.thread.isAlive() && asked.answer("its thread did not come back")) {
                asked.client.cut();
            }
        }
    }

    /** A new session at each living node writes and reads. @param started nodes that end by themselves are started again meanwhile */
    void nodes(final String phase, final boolean started) throws InterruptedException {
        final long began = System.nanoTime();
        List<Asked> all = new ArrayList<>();
        for (final Node node : run.alive()) {
            if (!run.driver.serves(node)) {
                continue;
            }
            final Client client = run.extra("serve-" + phase + "-" + node.name);
            all.add(new Asked(client.name, "serve", client, () -> until(began, node, started, () -> {
                client.open(node, run.operationMs);
                run.driver.serve(client);
            }), failure -> {
                // A node that has died meanwhile is asked nothing; whether it may die is another check's question.
                if (failure == null || node.alive()) {
                    run.observations.serve(phase, node.name, failure == null, Runner.since(began), failure);
                }
            }, client::close));
        }
        await(all, limit(began, started));
    }

    /** The clients of the test go on, each wherever it is let in; nodes that end by themselves are started again meanwhile. */
    void clients(final String phase) throws InterruptedException {
        final long began = System.nanoTime();
        List<Asked> all = new ArrayList<>();
        for (final Client client : run.clients) {
            if (run.leftBehind(client)) {
                run.observations.progress(phase, client.name, false, 0, "its thread still waits in an operation");
                continue;
            }
            all.add(new Asked("progress-" + client.name, "progress", client, () -> until(began, null, true, () -> {
                client.session(run.operationMs);
                run.driver.serve(client);
            }), failure -> run.observations.progress(phase, client.name, failure == null, Runner.since(began), failure), () -> { }));
        }
        await(all, limit(began, true));
    }

    /**
     * Asks until it is served or its time is up; once more, with as long, where a node (this one, or any where none is named) was started meanwhile:
     * it has as long as those that were not. @return null or the last failure
     */
    private String until(long began, Node about, boolean started, Runner.Step step) {
        long starts = starts(about);
        String failure = Runner.until(began + serveNs, about, step);
        if (failure != null && started && startedSince(starts, about)) {
            failure = Runner.until(System.nanoTime() + serveNs, about, step);
        }
        return failure;
    }

    /** When a thread that asks must be back: what it began in time may take as long as two operations, each of the two times. */
    private long limit(long began, boolean started) {
        long once = serveNs + 2 * run.operationMs * 1_000_000L;
        return began + once + (started ? once + STARTED_NS : 0) + 2_000_000_000L;
    }

    /** How often the node was started, or all of them where none is asked about. */
    private long starts(Node about) {
        long starts = 0;
        for (Node node : run.nodes) {
            starts += about == null || about == node ? node.incarnation() : 0;
        }
        return starts;
    }

    /** Whether a node was started since. Warren starts it soon after its end, so this waits a little for a node that is just dead. */
    private boolean startedSince(long before, Node about) {
        long limit = System.nanoTime() + STARTED_NS;
        while (about != null && !about.alive() && System.nanoTime() - limit < 0) {
            LockSupport.parkNanos(RETRY_NS);
        }
        return starts(about) != before;
    }
}
