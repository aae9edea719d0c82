package warren.agent;

import static org.objectweb.asm.Opcodes.*;

import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.objectweb.asm.tree.AbstractInsnNode;
import org.objectweb.asm.tree.AnnotationNode;
import org.objectweb.asm.tree.ClassNode;
import org.objectweb.asm.tree.FieldInsnNode;
import org.objectweb.asm.tree.InvokeDynamicInsnNode;
import org.objectweb.asm.tree.JumpInsnNode;
import org.objectweb.asm.tree.LabelNode;
import org.objectweb.asm.tree.MethodInsnNode;
import org.objectweb.asm.tree.MethodNode;
import org.objectweb.asm.tree.TryCatchBlockNode;
import org.objectweb.asm.tree.TypeInsnNode;
import org.objectweb.asm.tree.VarInsnNode;

/**
 * What JaCoCo leaves out of a method because the compiler wrote it and not a person: docs/coverage.md lists it. Of the copies of a
 * finally block one is counted, which was executed if any of them was. Pure.
 */
final class JacocoFilters {
    /** By index in {@link JacocoMethod#code}. */
    final BitSet ignored = new BitSet();
    /** Switches whose default is not counted as a way out. */
    final BitSet withoutDefault = new BitSet();

    private static final int ANY = -2;
    private static final int NOTHING = -1;

    private final ClassNode owner;
    private final MethodNode method;
    private final JacocoMethod m;
    private final AbstractInsnNode[] code;
    /** The copy that an instruction is counted with; itself if it has none. */
    private final int[] copyOf;

    JacocoFilters(ClassNode owner, JacocoMethod m) {
        this.owner = owner;
        this.m = m;
        method = m.node;
        code = m.code;
        copyOf = new int[code.length];
        for (int i = 0; i < code.length; i++) {
            copyOf[i] = i;
        }
        if (wholeMethod()) {
            ignored.set(0, code.length);
            return;
        }
        for (TryCatchBlockNode t : method.tryCatchBlocks) {
            int h = m.at.get(t.handler);
            if (t.type == null) {
                if (t.start != t.handler) {
                    synchronizedHandler(h);
                }
                finallyBlock(t, h);
            } else if (t.type.equals("java/lang/Throwable")) {
                resources(h);
                recordPattern(h);
            }
        }
        for (int i = 0; i < code.length; i++) {
            assertion(i);
            if (code[i].getOpcode() == TABLESWITCH || code[i].getOpcode() == LOOKUPSWITCH) {
                stringSwitch(i);
                exhaustiveSwitch(i);
            }
        }
    }

    /** The other copies of each instruction that stands for some. */
    Map<Integer, List<Integer>> copies() {
        Map<Integer, List<Integer>> all = new HashMap<>();
        for (int j = 0; j < copyOf.length; j++) {
            if (copyOf[j] != j) {
                all.computeIfAbsent(root(j), k -> new ArrayList<>()).add(j);
            }
        }
        return all;
    }

    private boolean wholeMethod() {
        if ((method.access & ACC_BRIDGE) != 0 || (method.access & ACC_SYNTHETIC) != 0 && !method.name.startsWith("lambda$")) {
            return true;
        }
        if (generated(owner.visibleAnnotations) || generated(owner.invisibleAnnotations)
                || generated(method.visibleAnnotations) || generated(method.invisibleAnnotations)) {
            return true;
        }
        String key = method.name + method.desc;
        if ("java/lang/Enum".equals(owner.superName)) {
            return key.equals("values()[L" + owner.name + ";") || key.equals("valueOf(Ljava/lang/String;)L" + owner.name + ";")
                    || key.equals("<init>(Ljava/lang/String;I)V") && thisFirst(ALOAD, ILOAD, INVOKESPECIAL, RETURN)
                            && calls(3, "java/lang/Enum", "<init>", "(Ljava/lang/String;I)V");
        }
        if ("java/lang/Record".equals(owner.superName) && ofRecord(key)) {
            return true;
        }
        return (method.access & ACC_PRIVATE) != 0 && key.equals("<init>()V") && thisFirst(INVOKESPECIAL, RETURN)
                && calls(1, owner.superName, "<init>", "()V");
    }

    private static boolean generated(List<AnnotationNode> annotations) {
        if (annotations != null) {
            for (AnnotationNode a : annotations) {
                int simple = Math.max(a.desc.lastIndexOf('/'), a.desc.lastIndexOf('$')) + 1;
                if (a.desc.indexOf("Generated", simple) >= 0) {
                    return true;
                }
            }
        }
        return false;
    }

    private boolean ofRecord(String key) {
        switch (key) {
            case "toString()Ljava/lang/String;":
                return thisFirst(INVOKEDYNAMIC, ARETURN) && objectMethod(1);
            case "hashCode()I":
                return thisFirst(INVOKEDYNAMIC, IRETURN) && objectMethod(1);
            case "equals(Ljava/lang/Object;)Z":
                return thisFirst(ALOAD, INVOKEDYNAMIC, IRETURN) && objectMethod(2);
            default:
                return method.desc.startsWith("()") && thisFirst(GETFIELD, ANY) && ((FieldInsnNode) code[1]).name.equals(method.name)
                        && code[2].getOpcode() >= IRETURN && code[2].getOpcode() <= ARETURN;
        }
    }

    private boolean objectMethod(int i) {
        InvokeDynamicInsnNode d = (InvokeDynamicInsnNode) code[i];
        return d.name.equals(method.name) && d.bsm.getOwner().equals("java/lang/runtime/ObjectMethods");
    }

    /** The method begins with `this` and these. */
    private boolean thisFirst(int... opcodes) {
        return is(0, ALOAD) && var(0) == 0 && is(1, opcodes);
    }

    private boolean is(int i, int... opcodes) {
        if (i < 0 || i + opcodes.length > code.length) {
            return false;
        }
        for (int k = 0; k < opcodes.length; k++) {
            if (opcodes[k] != ANY && code[i + k].getOpcode() != opcodes[k]) {
                return false;
            }
        }
        return true;
    }

    private int var(int i) {
        return ((VarInsnNode) code[i]).var;
    }

    private boolean calls(int i, String of, String name, String desc) {
        if (i >= code.length || !(code[i] instanceof MethodInsnNode)) {
            return false;
        }
        MethodInsnNode c = (MethodInsnNode) code[i];
        return c.owner.equals(of) && c.name.equals(name) && c.desc.equals(desc);
    }

    private void synchronizedHandler(int h) {
        if (is(h, ALOAD, MONITOREXIT, ATHROW)) {
            ignored.set(h, h + 3);
        } else if (is(h, ASTORE, ALOAD, MONITOREXIT, ALOAD, ATHROW) && var(h) == var(h + 3)) {
            ignored.set(h, h + 5);
        }
    }

    /** The check whether assertions are on, and where a class asks for that. */
    private void assertion(int i) {
        if (is(i, GETSTATIC, IFNE) && disabled(i)) {
            ignored.set(i + 1);
        }
        if (method.name.equals("<clinit>") && is(i, INVOKEVIRTUAL, IFNE, ICONST_1, GOTO, ICONST_0, PUTSTATIC)
                && calls(i, "java/lang/Class", "desiredAssertionStatus", "()Z") && disabled(i + 5)) {
            ignored.set(Math.max(0, i - 1), i + 6);
        }
    }

    private boolean disabled(int i) {
        FieldInsnNode f = (FieldInsnNode) code[i];
        return f.owner.equals(owner.name) && f.name.equals("$assertionsDisabled") && f.desc.equals("Z");
    }

    // ---- finally

    private void finallyBlock(TryCatchBlockNode any, int h) {
        int size = finallySize(h);
        if (size <= 0) {
            return;
        }
        BitSet inside = new BitSet();
        for (TryCatchBlockNode t : method.tryCatchBlocks) {
            if (t.handler == any.handler) {
                inside.set(m.at.get(t.start), Math.max(m.at.get(t.start), m.at.get(t.end)));
            }
        }
        for (TryCatchBlockNode t : method.tryCatchBlocks) {
            if (t.handler == any.handler) {
                boolean falls = false;
                int end = m.at.get(t.end);
                for (int i = m.at.get(t.start); i < end; i++) {
                    if (code[i] instanceof JumpInsnNode) {
                        int to = m.at.get(((JumpInsnNode) code[i]).label);
                        if (!inside.get(to)) {
                            copy(h, size, to);
                        }
                        falls = code[i].getOpcode() != GOTO;
                    } else {
                        falls = !JacocoMethod.ends(code[i].getOpcode());
                    }
                }
                if (falls && !inside.get(end)) {
                    copy(h, size, end);
                }
            }
            if (t != any && t.start == any.start && t.end == any.end) {
                // A catch block with nothing in it: its copy comes after the exception was put away.
                int after = m.at.get(t.handler) + 1;
                if (!inside.get(after)) {
                    copy(h, size, after);
                }
            }
        }
    }

    /** How long the finally block is in a handler that puts the exception away, runs it, and throws again; 0 if that is not what it does. */
    private int finallySize(int h) {
        if (!is(h, ASTORE)) {
            return 0;
        }
        for (int i = h + 1; i < code.length; i++) {
            if (is(i, ALOAD) && var(i) == var(h)) {
                return is(i + 1, ATHROW) ? i - h - 1 : 0;
            }
        }
        return 0;
    }

    private void copy(int h, int size, int from) {
        for (int k = 0; k < size; k++) {
            if (from + k >= code.length || code[h + 1 + k].getOpcode() != code[from + k].getOpcode()) {
                return;
            }
        }
        ignored.set(h);
        for (int k = 0; k < size; k++) {
            int one = root(h + 1 + k);
            int other = root(from + k);
            if (one != other) {
                copyOf[other] = one;
                ignored.set(other);
            }
        }
        ignored.set(h + 1 + size, h + 3 + size);
        if (is(from + size, GOTO)) {
            ignored.set(from + size); // else the block's last line would seem half executed
        }
    }

    private int root(int i) {
        int r = i;
        while (copyOf[r] != r) {
            r = copyOf[r];
        }
        return r;
    }

    // ---- try with resources

    /** Variables by role; bound when met first. */
    private static final class Bound {
        int resource = NOTHING;
        int primary = NOTHING;
        String closes;
    }

    /** The four ways of javac 7 to 10, of which the first that fits counts, then the two of 11 and later. */
    private void resources(int h) {
        boolean[][] old = {{false, true}, {true, false}, {false, false}, {true, true}}; // checked for null, by $closeResource
        for (boolean[] form : old) {
            Bound b = new Bound();
            if (!is(h, ASTORE, ALOAD, ASTORE, ALOAD, ATHROW, ASTORE) || var(h) != var(h + 1) || var(h) != var(h + 3)) {
                break;
            }
            b.primary = var(h + 2);
            int end = oldClose(h + 6, form[0], form[1], b);
            if (end > 0 && is(end, ALOAD, ATHROW) && var(end) == var(h + 5)) {
                for (int s = h - 1; s >= 0; s--) {
                    int close = oldClose(s, form[0], form[1], b);
                    if (close > 0) {
                        ignored.set(s, is(close, GOTO) ? close + 1 : close);
                        ignored.set(h, end + 2);
                        break;
                    }
                }
                break;
            }
        }
        for (boolean nullCheck : new boolean[] {true, false}) {
            Bound b = new Bound();
            int i = is(h, ASTORE) ? newClose(h + 1, nullCheck, b) : -1;
            if (i > 0 && is(i, GOTO, ASTORE, ALOAD, ALOAD, INVOKEVIRTUAL, ALOAD, ATHROW) && var(i + 2) == var(h)
                    && var(i + 3) == var(i + 1) && suppressed(i + 4) && var(i + 5) == var(h)) {
                for (int s = h - 1; s >= 0; s--) {
                    int close = newClose(s, nullCheck, b);
                    if (close > 0) {
                        ignored.set(s, is(close, GOTO) ? close + 1 : close);
                        ignored.set(h, i + 7);
                        break;
                    }
                }
            }
        }
    }

    private boolean suppressed(int i) {
        return calls(i, "java/lang/Throwable", "addSuppressed", "(Ljava/lang/Throwable;)V");
    }

    /** Returns the index after it, -1 if it is not there. */
    private int newClose(int i, boolean nullCheck, Bound b) {
        if (nullCheck) {
            if (!is(i, ALOAD, IFNULL) || !resource(i, b)) {
                return -1;
            }
            i += 2;
        }
        return close(i, b);
    }

    private int oldClose(int i, boolean nullCheck, boolean byMethod, Bound b) {
        if (nullCheck) {
            if (!is(i, ALOAD, IFNULL) || !resource(i, b)) {
                return -1;
            }
            i += 2;
        }
        if (!is(i, ALOAD) || var(i) != b.primary) {
            return -1;
        }
        if (byMethod) {
            boolean fits = is(i + 1, ALOAD, INVOKESTATIC) && resource(i + 1, b);
            return fits && ((MethodInsnNode) code[i + 2]).name.equals("$closeResource") ? i + 3 : -1;
        }
        if (!is(i + 1, IFNULL)) {
            return -1;
        }
        int j = close(i + 2, b);
        boolean fits = j > 0 && is(j, GOTO, ASTORE, ALOAD, ALOAD, INVOKEVIRTUAL, GOTO) && var(j + 2) == b.primary
                && var(j + 3) == var(j + 1) && suppressed(j + 4);
        return fits ? close(j + 6, b) : -1;
    }

    private boolean resource(int i, Bound b) {
        if (b.resource == NOTHING) {
            b.resource = var(i);
        }
        return b.resource == var(i);
    }

    private int close(int i, Bound b) {
        if (!is(i, ALOAD, ANY) || !resource(i, b)) {
            return -1;
        }
        int opcode = code[i + 1].getOpcode();
        if (opcode != INVOKEINTERFACE && opcode != INVOKEVIRTUAL) {
            return -1;
        }
        MethodInsnNode c = (MethodInsnNode) code[i + 1];
        if (!c.name.equals("close") || !c.desc.equals("()V") || b.closes != null && !b.closes.equals(c.owner)) {
            return -1;
        }
        b.closes = c.owner;
        return i + 2;
    }

    // ---- switches and patterns

    /** Of a switch over texts javac makes two; what leads to the second one is not counted. */
    private void stringSwitch(int s) {
        if (!is(s - 4, ICONST_M1, ISTORE, ALOAD, INVOKEVIRTUAL) || !calls(s - 1, "java/lang/String", "hashCode", "()I")) {
            return;
        }
        LabelNode second = JacocoMethod.labels(code[s]).get(0);
        int end = m.at.get(second);
        int i = s + 1;
        while (true) {
            if (!is(i, ALOAD, LDC, INVOKEVIRTUAL, IFEQ, ANY, ISTORE) || var(i) != var(s - 2) || var(i + 5) != var(s - 3)
                    || !calls(i + 2, "java/lang/String", "equals", "(Ljava/lang/Object;)Z")) {
                return;
            }
            i += 6;
            if (i == end) {
                break;
            }
            if (!is(i, GOTO) || ((JumpInsnNode) code[i]).label != second) {
                return;
            }
            i++;
        }
        if (is(end, ILOAD) && var(end) == var(s - 3) && (is(end + 1, TABLESWITCH) || is(end + 1, LOOKUPSWITCH))) {
            ignored.set(s, end);
        }
    }

    /** A default that the compiler added because the cases name everything. */
    private void exhaustiveSwitch(int s) {
        int d = m.at.get(JacocoMethod.labels(code[s]).get(0));
        if (!is(d, NEW, DUP) || m.lines[d] != m.lines[s]) {
            return;
        }
        int end;
        switch (((TypeInsnNode) code[d]).desc) {
            case "java/lang/MatchException":
                end = is(d + 2, ACONST_NULL, ACONST_NULL, INVOKESPECIAL, ATHROW) ? d + 6 : -1;
                break;
            case "java/lang/IncompatibleClassChangeError":
                end = is(d + 2, INVOKESPECIAL, ATHROW) ? d + 4 : -1;
                break;
            default:
                return;
        }
        if (end > 0) {
            ignored.set(d, end);
            withoutDefault.set(s);
        }
    }

    /** What wraps an exception of a record's accessor. */
    private void recordPattern(int h) {
        if (is(h, ASTORE, NEW, DUP, ALOAD, INVOKEVIRTUAL, ALOAD, INVOKESPECIAL, ATHROW)
                && ((TypeInsnNode) code[h + 1]).desc.equals("java/lang/MatchException") && var(h) == var(h + 3) && var(h) == var(h + 5)) {
            ignored.set(h, h + 8);
        }
    }
}
