// Setup file of every test worker. The runner ends immediately on INT, TERM and KILL without notifying its workers, but their
// channel closes. The worker then exits too, to release its servers.
import { beginTestFile } from './test-file-count.ts'

// Workers run many files in one process, and this one before each of them: one listener is enough.
if (beginTestFile() === 1) process.once('disconnect', () => process.exit(1))
