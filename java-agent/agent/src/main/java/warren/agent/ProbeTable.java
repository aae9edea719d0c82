package warren.agent;

import java.io.IOException;
import java.io.Writer;
import java.util.BitSet;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.MethodNode;

/**
 * What each exact probe stands for, as text (docs/formats.md): built up class by class while jars are instrumented, probes numbered
 * without gaps in that order. A class that comes twice is counted once, as it is loaded: the first.
 */
final class ProbeTable {
    /** The plan of one class: its methods by name and descriptor, and the number of the first probe of each. */
    static final class OfClass {
        final Map<String, JacocoMethod> methods = new HashMap<>();
        final Map<String, Integer> firsts = new HashMap<>();
    }

    private final StringBuilder notes = new StringBuilder();
    private final StringBuilder text = new StringBuilder();
    private final Set<String> seen = new HashSet<>();
    private int next;

    /** Takes a class in; null if nothing in it is counted. */
    OfClass add(byte[] bytes) {
        ClassReader reader = new ClassReader(bytes);
        if ((reader.getAccess() & (Opcodes.ACC_SYNTHETIC | Opcodes.ACC_MODULE)) != 0 || reader.getClassName().endsWith("/package-info")) {
            return null;
        }
        ClassNode node = new ClassNode();
        reader.accept(node, 0);
        OfClass plan = new OfClass();
        StringBuilder lines = new StringBuilder();
        int first = next;
        for (MethodNode method : node.methods) {
            JacocoMethod m = new JacocoMethod(method);
            if (!m.readable) {
                note("method " + node.name + "." + method.name + method.desc + " is not counted: it has subroutines of an old compiler");
            }
            plan.methods.put(method.name + method.desc, m);
            plan.firsts.put(method.name + method.desc, next);
            StringBuilder items = new StringBuilder();
            for (JacocoMethod.Item item : m.items(node)) {
                items.append(item.line).append(' ').append(item.instructions).append(' ');
                for (int i = 0; i < item.ends.size(); i++) {
                    items.append(i == 0 ? "" : "|");
                    probes(items, item.ends.get(i), next - first);
                }
                items.append('\n');
            }
            if (items.length() > 0) {
                lines.append("method ").append(method.name).append(method.desc).append('\n').append(items);
            }
            next += m.probes;
        }
        if (!seen.add(node.name)) {
            next = first;
            note("class " + node.name + " is there twice: the first one is counted");
            return null;
        }
        text.append("class ").append(String.format("%016x", id(bytes))).append(' ').append(node.name).append(' ')
                .append(node.sourceFile == null ? "-" : node.sourceFile).append(' ').append(first).append(' ').append(next - first)
                .append('\n').append(lines);
        return plan;
    }

    private static void probes(StringBuilder to, BitSet set, int base) {
        String between = "";
        for (int p = set.nextSetBit(0); p >= 0; p = set.nextSetBit(p + 1)) {
            to.append(between).append(base + p);
            between = ",";
        }
    }

    /** Something that a reader of the counts must know. */
    void note(String line) {
        notes.append("note ").append(line).append('\n');
    }

    void write(Writer to) throws IOException {
        to.write("warren-probes 1 " + next + "\n");
        to.append(notes);
        to.append(text);
    }

    /** JaCoCo's name for the bytes of a class, by which it knows that a report is of this class file. */
    static long id(byte[] bytes) {
        long sum = 0;
        for (int i = 0; i < bytes.length; i++) {
            // Classes of Java 9 count as ones of Java 8, as JaCoCo once changed them.
            int b = i == 7 && bytes[6] == 0 && bytes[7] == Opcodes.V9 ? Opcodes.V1_8 : bytes[i];
            long low = (sum ^ b) & 0xff;
            for (int bit = 0; bit < 8; bit++) {
                low = low >>> 1 ^ ((low & 1) == 0 ? 0 : 0xd800000000000000L);
            }
            sum = sum >>> 8 ^ low;
        }
        return sum;
    }
}
