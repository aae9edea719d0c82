package warren.agent;

import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * Puts the probes of a {@link JacocoMethod} into it: calls of {@code warren.runtime.Exact}, which add neither branches nor frames. It lies
 * behind {@link Probes}, which adds no label and no jump, so that labels and jumps are counted as the method's own.
 */
final class ExactProbes extends MethodVisitor {
    private static final String EXACT = "warren/runtime/Exact";
    /** From IFEQ on. */
    private static final String[] JUMPS = {
        "ifeq", "ifne", "iflt", "ifge", "ifgt", "ifle", "icmpeq", "icmpne", "icmplt", "icmpge", "icmpgt", "icmple", "acmpeq", "acmpne"
    };

    private final JacocoMethod method;
    private int next;
    private int labels;
    private int jumps;
    private int switches;

    /** {@code first}: number of the method's first probe among those of all classes. */
    ExactProbes(MethodVisitor to, JacocoMethod method, int first) {
        super(AppClass.API, to);
        this.method = method;
        next = first;
    }

    private void call(String name, String desc) {
        mv.visitMethodInsn(Opcodes.INVOKESTATIC, EXACT, name, desc, false);
    }

    private void hit() {
        mv.visitLdcInsn(next++);
        call("hit", "(I)V");
    }

    @Override
    public void visitLabel(Label label) {
        if (method.labelProbes.get(labels++)) {
            hit();
        }
        super.visitLabel(label);
    }

    @Override
    public void visitInsn(int opcode) {
        if (JacocoMethod.ends(opcode)) {
            hit();
        }
        super.visitInsn(opcode);
    }

    @Override
    public void visitJumpInsn(int opcode, Label label) {
        if (method.jumpProbes.get(jumps++)) {
            jump(opcode);
        }
        super.visitJumpInsn(opcode, label);
    }

    private void jump(int opcode) {
        if (opcode == Opcodes.GOTO) {
            hit();
            return;
        }
        boolean two = opcode >= Opcodes.IF_ICMPEQ && opcode <= Opcodes.IF_ACMPNE;
        boolean reference = opcode >= Opcodes.IF_ACMPEQ;
        mv.visitInsn(two ? Opcodes.DUP2 : Opcodes.DUP);
        mv.visitLdcInsn(next++);
        String name = opcode == Opcodes.IFNULL ? "ifnull" : opcode == Opcodes.IFNONNULL ? "ifnonnull" : JUMPS[opcode - Opcodes.IFEQ];
        String one = reference ? "Ljava/lang/Object;" : "I";
        call(name, "(" + one + (two ? one : "") + "I)V");
    }

    @Override
    public void visitTableSwitchInsn(int min, int max, Label dflt, Label... labels) {
        int[] keys = new int[labels.length];
        for (int i = 0; i < keys.length; i++) {
            keys[i] = min + i;
        }
        select(keys);
        super.visitTableSwitchInsn(min, max, dflt, labels);
    }

    @Override
    public void visitLookupSwitchInsn(Label dflt, int[] keys, Label[] labels) {
        select(keys);
        super.visitLookupSwitchInsn(dflt, keys, labels);
    }

    private void select(int[] keys) {
        int[] probes = method.switchProbes.get(switches++);
        int most = -1;
        StringBuilder ways = new StringBuilder(1 + 3 * keys.length).append((char) (probes[0] + 1));
        for (int i = 0; i < probes.length; i++) {
            most = Math.max(most, probes[i]);
            if (i > 0) {
                ways.append((char) (keys[i - 1] >>> 16)).append((char) keys[i - 1]).append((char) (probes[i] + 1));
            }
        }
        if (most >= 0) {
            mv.visitInsn(Opcodes.DUP);
            mv.visitLdcInsn(next);
            mv.visitLdcInsn(ways.toString());
            call("select", "(IILjava/lang/String;)V");
            next += most + 1;
        }
    }

    @Override
    public void visitMaxs(int maxStack, int maxLocals) {
        super.visitMaxs(maxStack + 3, maxLocals);
    }
}
