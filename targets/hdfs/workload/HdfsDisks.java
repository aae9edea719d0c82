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
import org.apache.hadoop.hdfs.protocol.ExtendedBlock;
import org.apache.hadoop.hdfs.protocol.LocatedBlock;
import warren.workload.Condition;
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
    /** A journal rolls every two seconds, so it is not twice in the way of one look. */
    private static final int DISK_S = 5;

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

    /** A finished segment of one journal node. */
    private static final class Segment {
        final long start;
        /** Its end and its bytes: all in which it may differ from another node's. */
        final String content;

        Segment(Matcher name, byte[] bytes) throws Exception {
            start = Long.parseLong(name.group(1));
            MessageDigest hash = MessageDigest.getInstance("SHA-256");
            hash.update(bytes, 0, used(bytes));
            content = "to " + Long.parseLong(name.group(2)) + ", " + HdfsTree.hex(hash);
        }
    }

    /**
     * Segments that two journal nodes have both finished and that begin at one transaction have one end and the same bytes: a writer
     * finishes a segment when a majority has all of it, a recovery at the length that a majority has accepted, and "once logs are
     * finalized, a different length will never be decided" (Journal.finalizeLogSegment; SegmentRecoveryComparator asserts it). Legal,
     * so not compared: a segment in progress, however long (a node that was away keeps a short one for ever, beside finished ones of
     * the others); one that a node lacks, as a majority is enough; what is purged, empty, or being fetched from another node (edits.sync).
     */
    void journals() throws Exception {
        Map<String, String> seen = new TreeMap<>();
        for (Node node : run.nodes("jn")) {
            for (Segment s : segments(node)) {
                same(seen, "segment from " + s.start, node, s.content, "journal nodes finished one segment differently");
            }
        }
    }

    /** A file that is renamed or purged between the list and the look makes it all be read again; so does one that cannot be read, for a while. */
    private static List<Segment> segments(Node node) throws Exception {
        List<Segment> all = new ArrayList<>();
        Condition.await(DISK_S, () -> {
            all.clear();
            for (Path file : below(folder(node))) {
                Matcher m = SEGMENT.matcher(file.getFileName().toString());
                if (m.matches() && file.getParent().endsWith("current")) {
                    all.add(new Segment(m, Files.readAllBytes(file)));
                }
            }
            return true;
        });
        return all;
    }

    /** Tells when what has one name has two contents. */
    private void same(Map<String, String> seen, String name, Node node, String content, String what) {
        String told = seen.putIfAbsent(name, node + " " + content);
        if (told != null && !told.endsWith(" " + content)) {
            out.mismatch(node, what, name + ": " + told + "; " + node + " " + content);
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

    /**
     * The first of these blocks that no DataNode has in whole; null = each is on a disk. Whatever a DataNode thinks of its replica, and a
     * newer generation, counts: only what is nowhere is lost.
     */
    String lost(List<LocatedBlock> blocks) throws Exception {
        String[] lost = new String[1];
        Condition.await(DISK_S, () -> {
            List<Path> there = new ArrayList<>();
            for (Node node : run.nodes("dn")) {
                there.addAll(below(folder(node)));
            }
            lost[0] = null;
            for (LocatedBlock b : blocks) {
                if (lost[0] == null && there.stream().noneMatch(file -> whole(file, b.getBlock()))) {
                    lost[0] = b.getBlock().toString();
                }
            }
            return true;
        });
        return lost[0];
    }

    private static boolean whole(Path meta, ExtendedBlock block) {
        Matcher m = BLOCK.matcher(meta.getFileName().toString());
        return m.matches() && Long.parseLong(m.group(1)) == block.getBlockId()
                && Long.parseLong(m.group(2)) >= block.getGenerationStamp()
                && meta.resolveSibling("blk_" + m.group(1)).toFile().length() >= block.getNumBytes();
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
