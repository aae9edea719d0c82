import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DirectoryListing;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.hdfs.protocol.HdfsLocatedFileStatus;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;

/** The namespace of one NameNode as it tells it: every path with its attributes and blocks, and what its files hold. */
final class HdfsTree {
    final Map<String, Entry> entries = new TreeMap<>();
    private final DistributedFileSystem fs;

    /** Reads it whole. */
    HdfsTree(DistributedFileSystem fs) throws IOException {
        this.fs = fs;
        walk("/");
    }

    /** One path of one namespace. */
    static final class Entry {
        final String attributes;
        final boolean folder;
        final List<LocatedBlock> blocks = new ArrayList<>();

        Entry(HdfsFileStatus s) {
            folder = s.isDirectory();
            StringBuilder text = new StringBuilder();
            text.append(s.isDirectory()).append(' ').append(s.getLen()).append(' ').append(s.getReplication()).append(' ');
            text.append(s.getBlockSize()).append(' ').append(s.getModificationTime()).append(' ').append(s.getPermission());
            text.append(' ').append(s.getOwner()).append(' ').append(s.getGroup()).append(' ').append(s.getStoragePolicy());
            text.append(' ').append(s.getFileId());
            if (s instanceof HdfsLocatedFileStatus && ((HdfsLocatedFileStatus) s).getLocatedBlocks() != null) {
                blocks.addAll(((HdfsLocatedFileStatus) s).getLocatedBlocks().getLocatedBlocks());
            }
            for (LocatedBlock b : blocks) {
                text.append(' ').append(b.getBlock().getLocalBlock());
            }
            attributes = text.toString();
        }
    }

    private void walk(String folder) throws IOException {
        byte[] after = HdfsFileStatus.EMPTY_NAME;
        DirectoryListing listing;
        do {
            listing = fs.getClient().listPaths(folder, after, true);
            if (listing == null) {
                throw new FileNotFoundException(folder);
            }
            for (HdfsFileStatus s : listing.getPartialListing()) {
                String path = s.getFullName(folder);
                Entry entry = new Entry(s);
                entries.put(path, entry);
                if (entry.folder) {
                    walk(path);
                }
            }
            after = listing.getLastName();
        } while (listing.hasMore());
    }

    /** All of it in one word. */
    String digest() throws Exception {
        MessageDigest hash = MessageDigest.getInstance("SHA-256");
        for (Map.Entry<String, Entry> e : entries.entrySet()) {
            hash.update((e.getKey() + " " + e.getValue().attributes + "\n").getBytes(StandardCharsets.UTF_8));
        }
        return hex(hash);
    }

    static String hex(MessageDigest hash) {
        StringBuilder text = new StringBuilder();
        for (byte b : Arrays.copyOf(hash.digest(), 8)) {
            text.append(String.format("%02x", b));
        }
        return text.toString();
    }
}
