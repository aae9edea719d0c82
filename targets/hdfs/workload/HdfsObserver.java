import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.locks.LockSupport;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.fs.RemoteIterator;
import org.apache.hadoop.hdfs.DistributedFileSystem;
import org.apache.hadoop.hdfs.protocol.DirectoryListing;
import org.apache.hadoop.hdfs.protocol.HdfsFileStatus;
import org.apache.hadoop.hdfs.protocol.HdfsLocatedFileStatus;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import org.apache.hadoop.hdfs.protocol.OpenFileEntry;
import org.apache.hadoop.hdfs.protocol.OpenFilesIterator;
import warren.workload.Node;
import warren.workload.Observations;
import warren.workload.Runner;

/**
 * What can be seen of a healed HDFS: leases, the namespace of both NameNodes at one transaction, the content of every file as each of
 * them tells where it is, blocks that are missing or corrupt, the finished segments of the journal nodes, the replicas on the
 * DataNodes, who is active. One object per round. The last two groups are read from the nodes' folders, which nothing but they write.
 */
final class HdfsObserver {
    private static final long LEASE_NS = 15_000_000_000L;
    private static final long BLOCKS_NS = 15_000_000_000L;
    private static final long ROUNDS_NS = 12_000_000_000L;
    private static final long POLL_NS = 50_000_000L;
    private static final int HTTP_MS = 2000;
    private static final Pattern STATE = Pattern.compile("\"State\" : \"(\\w+)\"");
    private static final Pattern APPLIED = Pattern.compile("LastAppliedOrWrittenTxId[\\\\\": ]+(\\d+)");
    private static final Pattern SEGMENT = Pattern.compile("edits_(\\d+)-(\\d+)");
    private static final Pattern BLOCK = Pattern.compile("blk_(\\d+)_(\\d+)\\.meta");

    private final Runner run;
    private final Observations out;
    private final HdfsWorkload workload;
    private final Map<Node, DistributedFileSystem> systems = new LinkedHashMap<>();
    private Node active;

    HdfsObserver(Runner run, Observations out, HdfsWorkload workload) {
        this.run = run;
        this.out = out;
        this.workload = workload;
    }

    boolean observe() throws Exception {
        try {
            for (Node node : HdfsConf.nodes(run, "nn")) {
                if (node.alive()) {
                    systems.put(node, HdfsConf.open(workload.conf.of(node.name, null),
                            "hdfs://" + node.address + ":" + HdfsConf.RPC));
                }
            }
            HdfsWorkload.await(10, () -> findActive());
            leases();
            blocks();
            boolean whole = namespaces();
            journals();
            leaders();
            return whole;
        } finally {
            for (DistributedFileSystem fs : systems.values()) {
                fs.close();
            }
        }
    }

    private boolean findActive() throws IOException {
        active = null;
        for (Node node : systems.keySet()) {
            if (find(STATE, jmx(node, "NameNodeStatus")).equals("active")) {
                active = node;
            }
        }
        return active != null;
    }

    // ---- questions

    private static String jmx(Node node, String bean) throws IOException {
        URL url = new URL("http://" + node.address + ":9870/jmx?qry=Hadoop:service=NameNode,name=" + bean);
        HttpURLConnection http = (HttpURLConnection) url.openConnection();
        http.setConnectTimeout(HTTP_MS);
        http.setReadTimeout(HTTP_MS);
        try (InputStream in = http.getInputStream()) {
            ByteArrayOutputStream text = new ByteArrayOutputStream();
            byte[] part = new byte[4096];
            for (int n = in.read(part); n > 0; n = in.read(part)) {
                text.write(part, 0, n);
            }
            return new String(text.toByteArray(), StandardCharsets.UTF_8);
        }
    }

    private static String find(Pattern pattern, String text) {
        Matcher m = pattern.matcher(text);
        return m.find() ? m.group(1) : "";
    }

    private static long applied(Node node) throws IOException {
        String found = find(APPLIED, jmx(node, "NameNodeInfo"));
        return found.isEmpty() ? -1 : Long.parseLong(found);
    }

    // ---- leases

    /** No client lives that writes: each file that is still open is asked for its recovery once, and must then be closed. */
    private void leases() throws Exception {
        DistributedFileSystem fs = systems.get(active);
        long limit = System.nanoTime() + LEASE_NS;
        Map<String, String> open = open(fs);
        for (String path : open.keySet()) {
            try {
                fs.recoverLease(new org.apache.hadoop.fs.Path(path));
            } catch (FileNotFoundException e) {
                // it is gone
            }
        }
        while (!open.isEmpty()) {
            LockSupport.parkNanos(POLL_NS);
            open = open(fs);
            if (!open.isEmpty() && System.nanoTime() - limit >= 0) {
                for (Map.Entry<String, String> e : open.entrySet()) {
                    out.leftover("lease", e.getKey(), e.getValue());
                }
                return;
            }
        }
    }

    private static Map<String, String> open(DistributedFileSystem fs) throws IOException {
        Map<String, String> open = new TreeMap<>();
        RemoteIterator<OpenFileEntry> all = fs.listOpenFiles(
                EnumSet.of(OpenFilesIterator.OpenFilesType.ALL_OPEN_FILES), "/");
        while (all.hasNext()) {
            OpenFileEntry e = all.next();
            open.put(e.getFilePath(), e.getClientName());
        }
        return open;
    }

    // ---- blocks

    /** Missing or corrupt blocks may be mended by copies; what is left after a while is lost. */
    private void blocks() throws Exception {
        DistributedFileSystem fs = systems.get(active);
        long limit = System.nanoTime() + BLOCKS_NS;
        while (true) {
            long missing = fs.getMissingBlocksCount();
            long corrupt = fs.getCorruptBlocksCount();
            if (missing == 0 && corrupt == 0) {
                return;
            }
            if (System.nanoTime() - limit >= 0) {
                if (missing > 0) {
                    out.mismatch(active, "blocks are missing", missing + " missing, " + corrupt + " corrupt");
                } else {
                    out.mismatch(active, "blocks stay corrupt", corrupt + " corrupt");
                }
                return;
            }
            LockSupport.parkNanos(POLL_NS);
        }
    }

    // ---- namespaces

    /** One path of one namespace. */
    private static final class Entry {
        final String attributes;
        final boolean folder;
        final List<LocatedBlock> blocks = new ArrayList<>();

        Entry(HdfsFileStatus s) {
            folder = s.isDirectory();
            StringBuilder text = new StringBuilder();
            text.append(s.isDirectory()).append(' ').append(s.getLen()).append(' ').append(s.getReplication()).append(' ');
            text.append(s.getBlockSize()).append(' ').append(s.getModificationTime()).append(' ').append(s.getPermission());
            text.append(' ').append(s.getOwner()).append(' ').append(s.getFileId());
            if (s instanceof HdfsLocatedFileStatus && ((HdfsLocatedFileStatus) s).getLocatedBlocks() != null) {
                blocks.addAll(((HdfsLocatedFileStatus) s).getLocatedBlocks().getLocatedBlocks());
            }
            for (LocatedBlock b : blocks) {
                text.append(' ').append(b.getBlock().getLocalBlock());
            }
            attributes = text.toString();
        }
    }

    private static Map<String, Entry> tree(DistributedFileSystem fs) throws IOException {
        Map<String, Entry> all = new TreeMap<>();
        walk(fs, "/", all);
        return all;
    }

    private static void walk(DistributedFileSystem fs, String folder, Map<String, Entry> all) throws IOException {
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
                all.put(path, entry);
                if (entry.folder) {
                    walk(fs, path, all);
                }
            }
            after = listing.getLastName();
        } while (listing.hasMore());
    }

    private static String digest(Map<String, Entry> tree) throws Exception {
        MessageDigest hash = MessageDigest.getInstance("SHA-256");
        for (Map.Entry<String, Entry> e : tree.entrySet()) {
            hash.update((e.getKey() + " " + e.getValue().attributes + "\n").getBytes(StandardCharsets.UTF_8));
        }
        return hex(hash);
    }

    private static String hex(MessageDigest hash) {
        StringBuilder text = new StringBuilder();
        for (byte b : Arrays.copyOf(hash.digest(), 8)) {
            text.append(String.format("%02x", b));
        }
        return text.toString();
    }

    /**
     * Both namespaces at one transaction: the active one's edits are rolled, the other has read up to there, and the active one's has
     * not changed meanwhile (rolling alone changes no namespace). A NameNode that is not there is not asked.
     */
    private boolean namespaces() throws Exception {
        long limit = System.nanoTime() + ROUNDS_NS;
        String why;
        do {
            try {
                why = attempt();
                if (why == null) {
                    return true;
                }
            } catch (IOException e) {
                why = e.toString();
            }
            LockSupport.parkNanos(POLL_NS);
            findActive();
        } while (active != null && System.nanoTime() - limit < 0);
        out.incomplete("replicas", why);
        out.incomplete("digests", why);
        return false;
    }

    /** @return null when it was told, else why it could not be */
    private String attempt() throws Exception {
        long end = systems.get(active).rollEdits() - 1;
        Map<Node, Map<String, Entry>> trees = new LinkedHashMap<>();
        trees.put(active, tree(systems.get(active)));
        for (Node node : systems.keySet()) {
            if (node != active) {
                HdfsWorkload.await(4, () -> applied(node) >= end);
                trees.put(node, tree(systems.get(node)));
            }
        }
        // Contents take a while, and may need a DataNode's report that is still to come.
        Map<Node, Map<String, byte[]>> contents = new LinkedHashMap<>();
        for (Node node : trees.keySet()) {
            contents.put(node, contents(systems.get(node), trees.get(node)));
        }
        String before = digest(trees.get(active));
        if (!before.equals(digest(tree(systems.get(active))))) {
            return "the namespace changed while it was read";
        }
        String version = Long.toString(end);
        for (Map.Entry<Node, Map<String, Entry>> t : trees.entrySet()) {
            out.digest(t.getKey(), version, digest(t.getValue()));
            for (Map.Entry<String, byte[]> c : contents.get(t.getKey()).entrySet()) {
                out.replica(t.getKey(), version, c.getKey(), workload.files.name(c.getKey(), c.getValue()), null);
            }
        }
        renames(trees.get(active));
        replicas(trees.get(active));
        return null;
    }

    private static Map<String, byte[]> contents(DistributedFileSystem fs, Map<String, Entry> tree) throws Exception {
        Map<String, byte[]> contents = new TreeMap<>();
        for (Map.Entry<String, Entry> e : tree.entrySet()) {
            if (!e.getValue().folder) {
                byte[][] content = new byte[1][];
                HdfsWorkload.await(5, () -> {
                    content[0] = HdfsSession.read(fs, e.getKey());
                    return true;
                });
                contents.put(e.getKey(), content[0]);
            }
        }
        return contents;
    }

    /** A rename that may have happened has happened or not: its file is at exactly one of the two names. */
    private void renames(Map<String, Entry> tree) {
        synchronized (workload.doubtful) {
            for (String[] names : workload.doubtful) {
                boolean from = tree.containsKey(names[0]);
                boolean to = tree.containsKey(names[1]);
                if (from == to) {
                    out.mismatch(active, "a renamed file is at " + (from ? "both names" : "neither name"),
                            names[0] + " to " + names[1]);
                }
            }
        }
    }

    // ---- what lies on disks

    private Path folder(Node node) {
        return Paths.get("").toAbsolutePath().getParent().resolve("nodes").resolve(node.name).resolve("data");
    }

    private static List<Path> below(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return new ArrayList<>();
        }
        try (Stream<Path> all = Files.walk(folder)) {
            return all.filter(Files::isRegularFile).collect(Collectors.toList());
        } catch (java.io.UncheckedIOException e) {
            throw e.getCause();
        }
    }

    /** Segments that two journal nodes have both finished hold the same edits; one that was down may lack some. */
    private void journals() throws Exception {
        Map<String, String> seen = new TreeMap<>();
        for (Node node : HdfsConf.nodes(run, "jn")) {
            for (Path file : below(folder(node))) {
                Matcher m = SEGMENT.matcher(file.getFileName().toString());
                if (m.matches()) {
                    MessageDigest hash = MessageDigest.getInstance("SHA-256");
                    byte[] bytes = Files.readAllBytes(file);
                    hash.update(bytes, 0, used(bytes));
                    String name = "segment " + Long.parseLong(m.group(1)) + "-" + Long.parseLong(m.group(2));
                    same(seen, name, node, hex(hash), "journal nodes finished one segment differently");
                }
            }
        }
    }

    /** Tells when what has one name has two contents. */
    private void same(Map<String, String> seen, String name, Node node, String hash, String what) {
        String told = seen.putIfAbsent(name, node + " " + hash);
        if (told != null && !told.endsWith(" " + hash)) {
            out.mismatch(node, what, name + ": " + told + ", " + node + " " + hash);
        }
    }

    /** A segment is made larger than its edits; the rest of it is filled with the mark of no operation. */
    private static int used(byte[] bytes) {
        int end = bytes.length;
        while (end > 0 && (bytes[end - 1] == -1 || bytes[end - 1] == 0)) {
            end--;
        }
        return end;
    }

    /** Finished replicas of one block, of the generation that the namespace names, are the same bytes. */
    private void replicas(Map<String, Entry> tree) throws Exception {
        Set<String> wanted = new HashSet<>();
        for (Entry e : tree.values()) {
            for (LocatedBlock b : e.blocks) {
                wanted.add("blk_" + b.getBlock().getBlockId() + "_" + b.getBlock().getGenerationStamp() + ".meta");
            }
        }
        Map<String, String> seen = new TreeMap<>();
        for (Node node : HdfsConf.nodes(run, "dn")) {
            for (Path meta : below(folder(node))) {
                String name = meta.getFileName().toString();
                Matcher m = BLOCK.matcher(name);
                if (wanted.contains(name) && m.matches() && meta.toString().contains("/finalized/")) {
                    try {
                        MessageDigest hash = MessageDigest.getInstance("SHA-256");
                        hash.update(Files.readAllBytes(meta.resolveSibling("blk_" + m.group(1))));
                        String block = "block " + m.group(1) + " generation " + m.group(2);
                        same(seen, block, node, hex(hash), "replicas of one block differ");
                    } catch (NoSuchFileException e) {
                        // it was taken away meanwhile
                    }
                }
            }
        }
    }

    // ---- who leads

    /** The epoch of a NameNode is that of its journal writer. */
    private void leaders() throws IOException {
        long epoch = -1;
        for (Node node : HdfsConf.nodes(run, "jn")) {
            Path file = folder(node).resolve("ns/current/last-writer-epoch");
            if (Files.exists(file)) {
                String text = new String(Files.readAllBytes(file), StandardCharsets.US_ASCII).trim();
                epoch = Math.max(epoch, Long.parseLong(text));
            }
        }
        for (Node node : systems.keySet()) {
            if (find(STATE, jmx(node, "NameNodeStatus")).equals("active")) {
                out.leader(node, Long.toString(epoch));
            }
        }
    }
}
