package warren.workload;

import java.util.concurrent.locks.LockSupport;

/**
 * Knocks at each rebooted server from the moment its process was started until it lets a client in, then reads there for a
 * little while: the reads that the rejoin rule judges. One thread watches, one per reboot knocks.
 */
public final class Prober {
    /** What the names of its clients begin with. */
    public static final String CLIENTS = "probe-";
    /** Each knock costs the server and this process some 0.3 ms of CPU, and a run has several reboots. */
    private static final long KNOCK_NS = 10_000_000L;
    private static final long READ_NS = 300_000_000L;
    private static final long LIMIT_NS = 30_000_000_000L;
    private static final int OPEN_MS = 1000;

    private final Runner run;
    private final long[] seen;
    private volatile boolean stopped;

    Prober(Runner run) {
        this.run = run;
        seen = new long[run.nodes.size()];
        for (Node node : run.nodes) {
            seen[node.index] = node.incarnation();
        }
    }

    void start() {
        Runner.start("prober", () -> {
            try {
                watch();
            } catch (Throwable t) {
                run.broke("the watch for rebooted nodes", t, stopped);
            }
        });
    }

    void stop() {
        stopped = true;
    }

    private void watch() {
        while (!stopped) {
            for (final Node node : run.nodes) {
                final long incarnation = node.incarnation();
                if (node.alive() && incarnation > seen[node.index] && run.driver.serves(node)) {
                    seen[node.index] = incarnation;
                    Runner.start("probe-" + node.name, () -> {
                        try {
                            knock(node, incarnation);
                        } catch (Throwable t) {
                            run.broke("the probe of " + node.name, t, !goesOn(node, incarnation));
                        }
                    });
                }
            }
            LockSupport.parkNanos(KNOCK_NS);
        }
    }

    /** Its answers are still wanted. */
    private boolean goesOn(Node node, long incarnation) {
        return !stopped && node.alive() && node.incarnation() == incarnation;
    }

    private void knock(Node node, long incarnation) {
        long limit = System.nanoTime() + LIMIT_NS;
        Client client = run.extra(CLIENTS + node.name + "-" + incarnation);
        while (goesOn(node, incarnation) && System.nanoTime() - limit < 0) {
            try {
                client.open(node, OPEN_MS);
            } catch (Exception e) {
                LockSupport.parkNanos(KNOCK_NS);
                continue;
            }
            boolean good = true;
            long until = System.nanoTime() + READ_NS;
            while (good && !stopped && System.nanoTime() - until < 0) {
                try {
                    run.driver.probe(client);
                    good = client.session().usable();
                } catch (Exception e) {
                    good = false;
                }
                LockSupport.parkNanos(KNOCK_NS);
            }
            client.close();
            if (good) {
                return;
            }
        }
    }
}
