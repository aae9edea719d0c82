package warren.agent;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.JumpInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.LineNumberNode;
import org.objectweb.asm.tree.LookupSwitchInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.TableSwitchInsnNode;
import org.objectweb.asm.tree.TryCatchBlockNode;

/**
 * One method as JaCoCo sees it (docs/coverage.md): where its probes are, in JaCoCo's order, and which of them show that an instruction, or
 * one way out of it, was executed. Pure; {@link ExactProbes} puts the probes in, {@link ProbeTable} writes down what they show.
 *
 * <p>Probes stand at each return and throw, on each way in to a place that is reached in more than one way, and before a line that calls
 * something and is reached by falling through. An instruction was executed if a probe was that can only be reached over it.
 */
final class JacocoMethod {
    /** One or more instructions of a line that the same probes show. Instructions with one way out have one end. */
    static final class Item {
        final int line;
        final List<BitSet> ends;
        int instructions = 1;

        Item(int line, List<BitSet> ends) {
            this.line = line;
            this.ends = ends;
        }
    }

    final MethodNode node;
    /** Instructions without labels, lines and frames. */
    final AbstractInsnNode[] code;
    final int[] lines;
    /** The instruction after a label; the length of {@link #code} at the end. */
    final Map<LabelNode, Integer> at = new IdentityHashMap<>();
    /** By order of appearance: whether a label has a probe before it, a jump one on its taken way. */
    final BitSet labelProbes = new BitSet();
    final BitSet jumpProbes = new BitSet();
    /** By order of appearance: of each switch the default, then its labels: the way's probe among those of the switch, -1 without. */
    final List<int[]> switchProbes = new ArrayList<>();
    int probes;
    /** False for subroutines of old compilers, in which nothing is counted. */
    final boolean readable;

    private final Map<LabelNode, Integer> waysIn = new IdentityHashMap<>();
    private final Map<LabelNode, Boolean> fallenInto = new IdentityHashMap<>();
    private final Map<LabelNode, Boolean> calls = new IdentityHashMap<>();
    private final int[] before;
    private final int[] beforeWay;
    private final int[] ways;
    private final List<List<BitSet>> ends = new ArrayList<>();

    JacocoMethod(MethodNode node) {
        this.node = node;
        List<AbstractInsnNode> real = new ArrayList<>();
        boolean subroutines = false;
        for (AbstractInsnNode n = node.instructions.getFirst(); n != null; n = n.getNext()) {
            if (n instanceof LabelNode) {
                at.put((LabelNode) n, real.size());
            } else if (n.getOpcode() >= 0) {
                real.add(n);
                subroutines |= n.getOpcode() == Opcodes.JSR || n.getOpcode() == Opcodes.RET;
            }
        }
        readable = !subroutines;
        code = real.toArray(new AbstractInsnNode[0]);
        lines = new int[code.length];
        before = new int[code.length];
        beforeWay = new int[code.length];
        ways = new int[code.length];
        if (readable) {
            flow();
            place();
        }
    }

    static boolean ends(int opcode) {
        return opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN || opcode == Opcodes.ATHROW;
    }

    /** Default first. */
    static List<LabelNode> labels(AbstractInsnNode insn) {
        List<LabelNode> all = new ArrayList<>();
        if (insn instanceof TableSwitchInsnNode) {
            all.add(((TableSwitchInsnNode) insn).dflt);
            all.addAll(((TableSwitchInsnNode) insn).labels);
        } else if (insn instanceof LookupSwitchInsnNode) {
            all.add(((LookupSwitchInsnNode) insn).dflt);
            all.addAll(((LookupSwitchInsnNode) insn).labels);
        }
        return all;
    }

    /** How many ways lead to each label, and which labels begin a line that calls. */
    private void flow() {
        for (TryCatchBlockNode t : node.tryCatchBlocks) {
            waysIn.merge(t.start, 1, Integer::sum);
            waysIn.merge(t.handler, 1, Integer::sum);
        }
        boolean first = true;
        boolean falls = false;
        LabelNode line = null;
        for (AbstractInsnNode n = node.instructions.getFirst(); n != null; n = n.getNext()) {
            if (n instanceof LabelNode) {
                int more = (first ? 1 : 0) + (falls ? 1 : 0);
                waysIn.merge((LabelNode) n, more, Integer::sum);
                fallenInto.put((LabelNode) n, falls);
            } else if (n instanceof LineNumberNode && ((LineNumberNode) n).line != 0) {
                line = ((LineNumberNode) n).start;
            }
            int opcode = n.getOpcode();
            if (opcode < 0) {
                continue;
            }
            first = false;
            falls = !ends(opcode) && opcode != Opcodes.GOTO;
            if (n instanceof JumpInsnNode) {
                waysIn.merge(((JumpInsnNode) n).label, 1, Integer::sum);
            } else if (opcode == Opcodes.TABLESWITCH || opcode == Opcodes.LOOKUPSWITCH) {
                falls = false;
                // However many keys lead there, it is one way.
                Map<LabelNode, Boolean> once = new IdentityHashMap<>();
                for (LabelNode label : labels(n)) {
                    if (once.put(label, true) == null) {
                        waysIn.merge(label, 1, Integer::sum);
                    }
                }
            } else if (opcode >= Opcodes.INVOKEVIRTUAL && opcode <= Opcodes.INVOKEDYNAMIC && line != null) {
                calls.put(line, true);
            }
        }
    }

    private boolean manyWays(LabelNode label) {
        return waysIn.getOrDefault(label, 0) > 1;
    }

    /** Numbers the probes and links each instruction to the one that alone leads to it. */
    private void place() {
        Arrays.fill(before, -1);
        List<int[]> shown = new ArrayList<>(); // instruction, way, probe
        List<Object[]> jumps = new ArrayList<>(); // instruction, label, way
        int current = -1;
        int line = -1;
        int labels = 0;
        int jumpsSeen = 0;
        int index = 0;
        for (AbstractInsnNode n = node.instructions.getFirst(); n != null; n = n.getNext()) {
            if (n instanceof LabelNode) {
                LabelNode label = (LabelNode) n;
                boolean fallen = fallenInto.get(label);
                if (fallen && (manyWays(label) || calls.containsKey(label))) {
                    labelProbes.set(labels);
                    if (current >= 0) {
                        shown.add(new int[] {current, 0, probes});
                        ways[current]++;
                    }
                    probes++;
                    current = -1;
                }
                labels++;
                if (!fallen) {
                    current = -1;
                }
            } else if (n instanceof LineNumberNode) {
                line = ((LineNumberNode) n).line;
            }
            int opcode = n.getOpcode();
            if (opcode < 0) {
                continue;
            }
            lines[index] = line;
            ends.add(new ArrayList<BitSet>());
            if (current >= 0) {
                link(current, 0, index);
            }
            current = index;
            if (ends(opcode)) {
                shown.add(new int[] {index, 0, probes++});
                ways[index]++;
            } else if (n instanceof JumpInsnNode) {
                LabelNode to = ((JumpInsnNode) n).label;
                if (manyWays(to)) {
                    jumpProbes.set(jumpsSeen);
                    shown.add(new int[] {index, 1, probes++});
                    ways[index]++;
                } else {
                    jumps.add(new Object[] {index, to, 1});
                }
                jumpsSeen++;
            } else if (opcode == Opcodes.TABLESWITCH || opcode == Opcodes.LOOKUPSWITCH) {
                select(n, index, shown, jumps);
            }
            index++;
        }
        for (Object[] jump : jumps) {
            Integer to = at.get(jump[1]);
            if (to != null && to < code.length) {
                link((Integer) jump[0], (Integer) jump[2], to);
            }
        }
        for (int[] s : shown) {
            int i = s[0];
            int way = s[1];
            // A loop of dead code leads to itself.
            while (i >= 0 && !end(i, way).get(s[2])) {
                end(i, way).set(s[2]);
                way = beforeWay[i];
                i = before[i];
            }
        }
    }

    private void select(AbstractInsnNode n, int index, List<int[]> shown, List<Object[]> jumps) {
        List<LabelNode> labels = labels(n);
        Map<LabelNode, Integer> given = new IdentityHashMap<>();
        int[] probe = new int[labels.size()];
        int first = probes;
        int way = 0;
        for (int i = 0; i < probe.length; i++) {
            LabelNode label = labels.get(i);
            if (!given.containsKey(label)) {
                if (manyWays(label)) {
                    given.put(label, probes - first);
                    shown.add(new int[] {index, way, probes++});
                    ways[index]++;
                } else {
                    given.put(label, -1);
                    jumps.add(new Object[] {index, label, way});
                }
                way++;
            }
            probe[i] = given.get(label);
        }
        switchProbes.add(probe);
    }

    private void link(int from, int way, int to) {
        ways[from]++;
        before[to] = from;
        beforeWay[to] = way;
    }

    private BitSet end(int i, int way) {
        List<BitSet> list = ends.get(i);
        while (list.size() <= way) {
            list.add(new BitSet());
        }
        return list.get(way);
    }

    /** What is counted of the method, by line; empty when nothing is. */
    List<Item> items(ClassNode owner) {
        List<Item> all = new ArrayList<>();
        if (!readable) {
            return all;
        }
        JacocoFilters filters = new JacocoFilters(owner, this);
        Map<Integer, List<Integer>> copies = filters.copies();
        Map<String, Item> alike = new HashMap<>();
        for (int i = 0; i < code.length; i++) {
            if (filters.ignored.get(i)) {
                continue;
            }
            List<BitSet> list = new ArrayList<>();
            int wanted = ways[i];
            for (int way = 0; way < Math.max(ends.get(i).size(), ways[i]); way++) {
                BitSet set = (BitSet) end(i, way).clone();
                for (int other : copies.getOrDefault(i, Collections.<Integer>emptyList())) {
                    set.or(end(other, way));
                }
                list.add(set);
            }
            if (filters.withoutDefault.get(i)) {
                list.remove(0);
                wanted--;
            }
            if (wanted < 2) {
                BitSet any = new BitSet();
                for (BitSet set : list) {
                    any.or(set);
                }
                Item item = new Item(lines[i], Collections.singletonList(any));
                Item same = alike.putIfAbsent(lines[i] + " " + any, item);
                if (same != null) {
                    same.instructions++;
                    continue;
                }
                all.add(item);
            } else {
                all.add(new Item(lines[i], list));
            }
        }
        return all;
    }
}
