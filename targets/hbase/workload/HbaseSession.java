import java.io.IOException;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.hbase.client.Admin;
import org.apache.hadoop.hbase.client.Connection;
import org.apache.hadoop.hbase.client.ConnectionFactory;
import org.apache.hadoop.conf.Configuration;
import warren.workload.Client;
import warren.workload.NamedSession;

/** One client of the cluster: a connection of its own, with nothing known yet of where regions are. Its calls end by {@link HbaseConf}. */
final class HbaseSession extends NamedSession {
    private static final AtomicLong COUNT = new AtomicLong();
    private static final long CLOSE_MS = 3000;

    final Connection connection;
    private volatile Thread busy;

    HbaseSession(Configuration conf, String client) throws IOException {
        super(client + "/" + COUNT.incrementAndGet());
        connection = ConnectionFactory.createConnection(conf);
    }

    static HbaseSession of(Client client) {
        return (HbaseSession) client.session();
    }

    /** What one operation does. */
    interface Body<T> {
        T run() throws Exception;
    }

    /** What one operation does with an administrator's handle. */
    interface Administered<T> {
        T run(Admin admin) throws Exception;
    }

    /** Does it so that {@link #drop} can end it. */
    <T> T call(Body<T> body) throws Exception {
        busy = Thread.currentThread();
        try {
            if (!usable) {
                throw new IOException("the session was dropped");
            }
            return body.run();
        } finally {
            busy = null;
            if (!usable) {
                // The interrupt was for this call, and may have come too late for it.
                Thread.interrupted();
            }
        }
    }

    <T> T admin(Administered<T> body) throws Exception {
        return call(() -> {
            try (Admin admin = connection.getAdmin()) {
                return body.run(admin);
            }
        });
    }

    @Override
    public boolean close() {
        usable = false;
        boolean[] closed = new boolean[1];
        Thread closer = aside("close-" + id(), () -> {
            connection.close();
            closed[0] = true;
        });
        try {
            closer.join(CLOSE_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return closed[0] && !closer.isAlive();
    }

    @Override
    public void drop() {
        usable = false;
        Thread waiting = busy;
        if (waiting != null && waiting != Thread.currentThread()) {
            waiting.interrupt();
        }
        aside("drop-" + id(), connection::close);
    }

    /** Work whose failure tells nothing. */
    private static Thread aside(String name, Step step) {
        Thread thread = new Thread(() -> {
            try {
                step.run();
            } catch (Exception e) {
                // the session is over either way
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private interface Step {
        void run() throws Exception;
    }
}
