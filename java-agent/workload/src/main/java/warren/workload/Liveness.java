package warren.workload;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.LockSupport;

/**
 * What is asked after the test, once with the dead left dead and once when all is healed: does each living node serve a new session, and does each
 * client of the test get on? {@link Runner} asks at DEGRADED and HEALED; what the answers mean is the liveness checker's business.
 */
final class Liveness {
    /** So soon Warren starts a node that has ended by itself when all is healed. */
    private static final long STARTED_NS = 2_000_000_000L;
    private static final long RETRY_NS = 10_000_000L;
    private static final String PROGRESS = "progress-";

    private final Runner run;
    private final long serveNs;

    /** @param serveMs how long a node or a client is asked again and again before it counts as not served */
    Liveness(Runner run, long serveMs) {
        this.run = run;
        serveNs = serveMs * 1_000_000L;
    }

    /** A new session at each living node writes and reads. @param started nodes that end by themselves are started again meanwhile */
    void nodes(final String phase, final boolean started) throws InterruptedException {
        final long began = System.nanoTime();
        List<Thread> threads = new ArrayList<>();
        for (final Node node : run.alive()) {
            if (!run.driver.serves(node)) {
                continue;
            }
            final Client client = run.extra("serve-" + phase + "-" + node.name);
            threads.add(Runner.start(client.name, () -> {
                String failure = ask(began, node, started, () -> {
                    client.open(node, run.operationMs);
                    run.driver.serve(client);
                });
                client.close();
                // A node that has died meanwhile is asked nothing; whether it may die is another check's question.
                if (failure == null || node.alive()) {
                    run.observations.serve(phase, node.name, failure == null, Runner.since(began), failure);
                }
            }));
        }
        Runner.join(threads, limit(began, started));
        for (Thread thread : threads) {
            if (thread.isAlive()) {
                run.observations.incomplete("serve", thread.getName() + " did not come back");
            }
        }
    }

    /** The clients of the test go on, each wherever it is let in; nodes that end by themselves are started again meanwhile. */
    void clients(final String phase) throws InterruptedException {
        final long began = System.nanoTime();
        List<Thread> threads = new ArrayList<>();
        for (final Client client : run.clients) {
            if (run.leftBehind(client)) {
                run.observations.progress(phase, client.name, false, 0, "its thread still waits in an operation");
                continue;
            }
            threads.add(Runner.start(PROGRESS + client.name, () -> {
                String failure = ask(began, null, true, () -> {
                    client.session(run.operationMs);
                    run.driver.serve(client);
                });
                run.observations.progress(phase, client.name, failure == null, Runner.since(began), failure);
            }));
        }
        // Each of the two times it asks may end with an operation that began in time.
        Runner.join(threads, limit(began, true) + 2 * run.operationMs * 1_000_000L);
        for (Thread thread : threads) {
            if (thread.isAlive()) {
                String client = thread.getName().substring(PROGRESS.length());
                run.observations.progress(phase, client, false, Runner.since(began), "its thread did not come back");
            }
        }
    }

    /**
     * Asks until it is served or its time is up; once more, with as long, where a node (this one, or any where none is named) was started meanwhile:
     * it has as long as those that were not. @return null or the last failure
     */
    private String ask(long began, Node about, boolean started, Runner.Step step) {
        long starts = starts(about);
        String failure = Runner.until(began + serveNs, about, step);
        if (failure != null && started && startedSince(starts, about)) {
            failure = Runner.until(System.nanoTime() + serveNs, about, step);
        }
        return failure;
    }

    /** When a thread that asks must be back. */
    private long limit(long began, boolean started) {
        return began + serveNs + (started ? serveNs + STARTED_NS : 0) + 2_000_000_000L;
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
