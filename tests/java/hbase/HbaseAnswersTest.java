import warren.workload.Result;

/** What is made of the answers to disable, truncate and delete; `O` = ok, `U` = unknown, `R` = refused as the table is not disabled. */
public final class HbaseAnswersTest {
    /** Disable, truncate, disable, delete; then what is told: `t` truncate or `d` delete was refused wrongly, `n` = the note. */
    private static final String[][] TABLE = {
        {"O", "O", "O", "O", ""},
        // What the paper calls HBASE-26370, and HBase's promise allows: the table was truncated by the first call.
        {"O", "UR", "O", "O", "n"},
        {"O", "UUR", "O", "O", "n"},
        // The first call, and the table was disabled.
        {"O", "R", "", "", "t"},
        {"UO", "R", "", "", "t"},
        {"O", "RR", "", "", "t"},
        // That it is disabled was seen, not answered: another disable may be under way, but no answer was broken.
        {"U", "R", "", "", ""},
        {"U", "UR", "O", "O", "n"},
        // The second call did it.
        {"O", "UO", "O", "O", ""},
        {"O", "UU", "", "", ""},
        {"O", "URO", "O", "O", ""},
        {"O", "", "", "", ""},
        {"", "", "", "", ""},
        {"O", "O", "O", "R", "d"},
        {"O", "O", "UO", "RU", "d"},
        {"O", "O", "O", "UR", ""},
        {"O", "O", "U", "R", ""},
        // The second truncate may come after the disable.
        {"O", "UR", "O", "R", "n"},
        {"O", "UO", "O", "R", ""},
        {"O", "U", "O", "R", ""},
    };

    private HbaseAnswersTest() {
    }

    private static HbaseAnswers answers(String letters) {
        HbaseAnswers all = new HbaseAnswers();
        for (char letter : letters.toCharArray()) {
            switch (letter) {
                case 'O':
                    all.add(Result.ok());
                    break;
                case 'U':
                    all.add(Result.unknown("java.util.concurrent.TimeoutException"));
                    break;
                default:
                    all.add(Result.unknown("java.util.concurrent.ExecutionException: org.apache.hadoop.hbase.TableNotDisabledException: t"));
            }
        }
        return all;
    }

    public static void main(String[] args) {
        int wrong = 0;
        for (String[] row : TABLE) {
            HbaseAnswers truncate = answers(row[1]);
            String told = (HbaseAnswers.wronglyRefused(answers(row[0]), truncate) ? "t" : "")
                    + (HbaseAnswers.wronglyRefused(truncate, answers(row[2]), answers(row[3])) ? "d" : "")
                    + (HbaseAnswers.misleading(truncate) ? "n" : "");
            if (!told.equals(row[4])) {
                System.out.println(String.join(" ", row) + ": told `" + told + "`");
                wrong++;
            }
        }
        System.exit(wrong == 0 ? 0 : 1);
    }
}
