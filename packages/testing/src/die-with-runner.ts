// Setup file of every test worker. The runner dies at once on INT, TERM and KILL and tells its workers nothing, but their channel to
// it closes. A worker that stayed would keep what it borrowed, so it goes too.
import { beginTestFile } from './test-file-count.ts'

// Workers run many files in one process, and this one before each of them: one listener is enough.
if (beginTestFile() === 1) process.once('disconnect', () => process.exit(1))
