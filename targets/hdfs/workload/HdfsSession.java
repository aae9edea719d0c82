import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import warren.workload.LibrarySession;

/** One HDFS client: a lease holder with at most one file open for writing. Its calls end by the time-outs of {@link HdfsConf}. */
final class HdfsSession extends LibrarySession {
    private static final int READ_TRIES = 3;

    final DistributedFileSystem fs;
    /** The file that is being written, kept open between two operations. */
    FSDataOutputStream out;

    private static final Path ROOT = new Path("/");

    private final AtomicLong failovers;
    /**
     * How often the client had turned when it was last shown that the NameNode it asks is the one that writes. None of its answers is older
     * than what the session knows from others; before the first turn there are no others.
     */
    private long proven;

    HdfsSession(DistributedFileSystem fs, String client, AtomicLong failovers) {
        super(client);
        this.fs = fs;
        this.failovers = failovers;
    }

    /**
     * A whole file, null where there is none, as an active NameNode knows it. One that was deposed and has not noticed answers as an active one
     * does, with what was before: a client that turned to it from its successor would be shown time run backwards. So after a turn, whoever made
     * it (the library renews leases on a thread of its own), a NameNode is believed only when it has written since.
     */
    byte[] readFromActive(String path) throws IOException {
        for (int tries = 0; tries < READ_TRIES; tries++) {
            // A standby answers reads, and may be behind: the observer needs that (hdfs-site.xml.in). This it refuses, and the client turns to the other one.
            fs.msync();
            long before = failovers.get();
            byte[] content;
            try {
                content = read(fs, path);
            } catch (FileNotFoundException e) {
                content = null;
            }
            fs.msync();
            if (before != proven && failovers.get() == before) {
                writes();
            }
            if (failovers.get() == before) {
                proven = before;
                return content;
            }
        }
        throw new IOException("another NameNode became active during each of " + READ_TRIES + " reads");
    }

    /** Its answer comes when the journal has taken an edit, which it takes from one NameNode only. Nothing that is looked at has the root's time. */
    private void writes() throws IOException {
        fs.setTimes(ROOT, System.currentTimeMillis(), -1);
    }

    @Override
    protected void end() throws IOException {
        fs.close();
    }

    /** Leases and streams. */
    @Override
    protected void letGo() {
        fs.getClient().closeAllFilesBeingWritten(true);
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
