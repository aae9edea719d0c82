import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.ha.ZKFCProtocol;
import org.apache.hadoop.hdfs.tools.NNHAServiceTarget;
import org.apache.hadoop.ipc.RPC;
import warren.workload.Node;
import warren.workload.Observations;
import warren.workload.Runner;

/**
 * Failovers as an administrator asks for them, and what they are worth: each is asked of the standby's controller, as `haadmin
 * -failover` does, and then the new active NameNode must serve a client that does not know of it yet. Called by {@link HdfsObserver}, in
 * its last round only and after all that looks at the namespace.
 */
final class HdfsFailover {
    private static final long POLL_NS = 50_000_000L;
    /** No client, and no step, makes anything of this name. */
    private static final Path FILE = new Path("/failover");

    private final HdfsConf confs;
    private final Observations out;
    private final long serveMs = Runner.number("serve_ms", 30_000);

    HdfsFailover(HdfsConf confs, Observations out) {
        this.confs = confs;
        this.out = out;
    }

    /** Once in each direction. The first that is not done is told, and nothing is asked after it. */
    void inEachDirection(Node active, Node standby) {
        if (done(active, standby)) {
            done(standby, active);
        }
    }

    private boolean done(Node from, Node to) {
        String why = failover(to);
        if (why != null) {
            out.refused(from, "a failover to the other NameNode", why);
            return false;
        }
        why = service(from, to);
        if (why != null) {
            out.refused(to, "writing and reading a file after a failover to the other NameNode", why);
            return false;
        }
        return true;
    }

    // ---- the failover

    /** @return null when it was done, else why not. It is asked again while a controller finds no active one, or a NameNode unhealthy for a moment */
    private String failover(Node to) {
        long limit = System.nanoTime() + serveMs * 1_000_000;
        Configuration conf = confs.of(to.name, null);
        NNHAServiceTarget target = new NNHAServiceTarget(conf, "ns", to.name);
        String why;
        do {
            why = ask(target, conf, (int) Math.max(1000, (limit - System.nanoTime()) / 1_000_000));
            try {
                if (HdfsObserver.state(to).equals("active")) {
                    return null;
                }
            } catch (IOException e) {
                // It does not answer while it becomes active.
                why = why == null ? e.toString() : why;
            }
            LockSupport.parkNanos(POLL_NS);
        } while (System.nanoTime() - limit < 0);
        return why == null ? "it said that it was done, and it is not" : why;
    }

    /** @return what the controller said against it; null when it said that it was done */
    private static String ask(NNHAServiceTarget target, Configuration conf, int timeoutMs) {
        ZKFCProtocol controller = null;
        try {
            controller = target.getZKFCProxy(conf, timeoutMs);
            controller.gracefulFailover();
            return null;
        } catch (IOException e) {
            return e.toString();
        } finally {
            if (controller != null) {
                RPC.stopProxy(controller);
            }
        }
    }

    // ---- what it is worth

    /** @return null when a client was served, else why not. It tries again as long as clients may take to find the new active one */
    private String service(Node from, Node to) {
        long limit = System.nanoTime() + serveMs * 1_000_000;
        while (true) {
            try {
                use(from, to);
                return null;
            } catch (IOException e) {
                if (System.nanoTime() - limit >= 0) {
                    return e.toString();
                }
            }
            LockSupport.parkNanos(POLL_NS);
        }
    }

    /**
     * A new client, which asks first the NameNode that was active, makes a file, reads it and deletes it. The content is another one each
     * time, and a file that a try before has left is written over.
     */
    private void use(Node from, Node to) throws IOException {
        Configuration conf = confs.of(from.name, null);
        AtomicLong turns = HdfsConf.failovers(conf);
        HdfsSession client = new HdfsSession(HdfsConf.open(conf, "hdfs://ns"), "failover", turns);
        byte[] content = ("active: " + to + ", " + System.nanoTime()).getBytes(StandardCharsets.US_ASCII);
        try {
            FSDataOutputStream file = client.fs.create(FILE, true);
            file.write(content);
            file.close();
            byte[] seen = client.readFromActive(FILE.toString());
            if (!Arrays.equals(seen, content)) {
                throw new IOException("read: " + (seen == null ? "no file" : "not what was written, " + seen.length + " bytes"));
            }
            if (!client.fs.delete(FILE, false)) {
                throw new IOException("delete: no file");
            }
            // Of two NameNodes, after an odd number of turns it has come to the second one.
            if (turns.get() % 2 == 0) {
                throw new IOException(from + " serves, and not " + to);
            }
        } finally {
            // The file of a write that failed is open still, and closing it may take long: it is let go of.
            client.drop();
            client.close();
        }
    }
}
