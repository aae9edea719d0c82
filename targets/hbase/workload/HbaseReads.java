import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.locks.LockSupport;
import warren.workload.Client;
import warren.workload.Operation;
import warren.workload.Result;
import warren.workload.Runner;

/**
 * The rows of the tables of the traffic, read by get and by scan as operations of the history. Called by {@link HbaseObserver} where something
 * never ends: then no round is complete, so that nothing of what tables hold would be judged, and what stands still excuses a region that does not
 * answer, and no row that is wrong. HBase never gives an old row, which the history's `sync` says; there is nothing to be done for it.
 */
final class HbaseReads {
    private static final long READ_NS = 15_000_000_000L;
    private static final long RETRY_NS = 10_000_000L;
    private static final int OPEN_MS = 1000;

    private final Runner run;
    private final HbaseWorkload workload;
    private final long limit = System.nanoTime() + READ_NS;

    HbaseReads(Runner run, HbaseWorkload workload) {
        this.run = run;
        this.workload = workload;
    }

    /** As much of it as can be had in its time. What cannot be read tells nothing. */
    void make() {
        Client client = run.extra("check-rows");
        if (!opened(client)) {
            return;
        }
        client.run(Operation.of("sync", "/"), Result::ok);
        List<String[]> left = new ArrayList<>();
        for (String table : HbaseWorkload.TRAFFIC) {
            workload.rows.of(table).forEach(row -> left.add(new String[] {table, row}));
        }
        int before;
        do {
            before = left.size();
            pass(client, left);
        } while (left.size() < before && !left.isEmpty() && System.nanoTime() - limit < 0);
        client.close();
    }

    private boolean opened(Client client) {
        while (System.nanoTime() - limit < 0) {
            try {
                client.session(OPEN_MS);
                return true;
            } catch (Exception e) {
                LockSupport.parkNanos(RETRY_NS);
            }
        }
        return false;
    }

    /** Takes what was read out of the list. A region that has not answered is not asked for its other rows: each would take as long. */
    private void pass(Client client, List<String[]> left) {
        Set<String> silent = new TreeSet<>();
        for (Iterator<String[]> all = left.iterator(); all.hasNext() && System.nanoTime() - limit < 0; ) {
            String[] next = all.next();
            String region = next[0] + " " + HbaseWorkload.region(next[1]);
            if (silent.contains(region)) {
                continue;
            }
            boolean read = workload.operations.get(client, next[0], next[1]).isOk()
                    && workload.operations.scan(client, next[0], next[1]).isOk();
            if (read) {
                all.remove();
            } else {
                silent.add(region);
            }
        }
    }
}
