import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import warren.workload.Node;
import warren.workload.Observations;
import warren.workload.Runner;

/**
 * What lies on the nodes' disks: the finished segments of the journal nodes, the replicas on the DataNodes, the epoch of the journal's
 * writer. Read from their folders, which nothing but they write.
 */
final class HdfsDisks {
    private static final Pattern SEGMENT = Pattern.compile("edits_(\\d+)-(\\d+)");
    private static final Pattern BLOCK = Pattern.compile("blk_(\\d+)_(\\d+)\\.meta");

    private final Runner run;
    private final Observations out;

    HdfsDisks(Runner run, Observations out) {
        this.run = run;
        this.out = out;
    }

    private static Path folder(Node node) {
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
    void journals() throws Exception {
        Map<String, String> seen = new TreeMap<>();
        for (Node node : run.nodes("jn")) {
            for (Path file : below(folder(node))) {
                Matcher m = SEGMENT.matcher(file.getFileName().toString());
                if (m.matches()) {
                    MessageDigest hash = MessageDigest.getInstance("SHA-256");
                    byte[] bytes = Files.readAllBytes(file);
                    hash.update(bytes, 0, used(bytes));
                    String name = "segment " + Long.parseLong(m.group(1)) + "-" + Long.parseLong(m.group(2));
                    same(seen, name, node, HdfsTree.hex(hash), "journal nodes finished one segment differently");
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
    void replicas(HdfsTree tree) throws Exception {
        Set<String> wanted = new HashSet<>();
        for (HdfsTree.Entry e : tree.entries.values()) {
            for (LocatedBlock b : e.blocks) {
                wanted.add("blk_" + b.getBlock().getBlockId() + "_" + b.getBlock().getGenerationStamp() + ".meta");
            }
        }
        Map<String, String> seen = new TreeMap<>();
        for (Node node : run.nodes("dn")) {
            for (Path meta : below(folder(node))) {
                String name = meta.getFileName().toString();
                Matcher m = BLOCK.matcher(name);
                if (wanted.contains(name) && m.matches() && meta.toString().contains("/finalized/")) {
                    try {
                        MessageDigest hash = MessageDigest.getInstance("SHA-256");
                        hash.update(Files.readAllBytes(meta.resolveSibling("blk_" + m.group(1))));
                        String block = "block " + m.group(1) + " generation " + m.group(2);
                        same(seen, block, node, HdfsTree.hex(hash), "replicas of one block differ");
                    } catch (NoSuchFileException e) {
                        // it was taken away meanwhile
                    }
                }
            }
        }
    }

    /** The newest epoch of a journal writer; -1 = none has written. */
    long writerEpoch() throws IOException {
        long epoch = -1;
        for (Node node : run.nodes("jn")) {
            Path file = folder(node).resolve("ns/current/last-writer-epoch");
            if (Files.exists(file)) {
                String text = new String(Files.readAllBytes(file), StandardCharsets.US_ASCII).trim();
                epoch = Math.max(epoch, Long.parseLong(text));
            }
        }
        return epoch;
    }
}
