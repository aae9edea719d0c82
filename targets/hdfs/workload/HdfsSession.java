import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import warren.workload.NamedSession;

/** One HDFS client: a lease holder with at most one file open for writing. Its calls end by the time-outs of {@link HdfsConf}. */
final class HdfsSession extends NamedSession {
    private static final AtomicLong COUNT = new AtomicLong();
    private static final long CLOSE_MS = 3000;

    final DistributedFileSystem fs;
    private volatile Thread busy;
    /** The file that is being written, kept open between two operations. */
    FSDataOutputStream out;

    HdfsSession(DistributedFileSystem fs, String client) {
        super(client + "/" + COUNT.incrementAndGet());
        this.fs = fs;
    }

    /** What one operation does. */
    interface Body<T> {
        T run() throws Exception;
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

    @Override
    public boolean close() {
        usable = false;
        boolean[] closed = new boolean[1];
        Thread closer = aside("close-" + id(), () -> {
            fs.close();
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
        // Lets go of leases and streams without a word to the NameNode.
        aside("drop-" + id(), () -> fs.getClient().closeAllFilesBeingWritten(true));
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

    /** A whole file. */
    static byte[] read(DistributedFileSystem fs, String path) throws IOException {
        try (InputStream in = fs.open(new Path(path))) {
            ByteArrayOutputStream content = new ByteArrayOutputStream();
            byte[] part = new byte[8192];
            for (int n = in.read(part); n > 0; n = in.read(part)) {
                content.write(part, 0, n);
            }
            return content.toByteArray();
        }
    }
}
