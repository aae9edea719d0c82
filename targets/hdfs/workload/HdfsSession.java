import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import warren.workload.LibrarySession;

/** One HDFS client: a lease holder with at most one file open for writing. Its calls end by the time-outs of {@link HdfsConf}. */
final class HdfsSession extends LibrarySession {
    final DistributedFileSystem fs;
    /** The file that is being written, kept open between two operations. */
    FSDataOutputStream out;

    HdfsSession(DistributedFileSystem fs, String client) {
        super(client);
        this.fs = fs;
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
