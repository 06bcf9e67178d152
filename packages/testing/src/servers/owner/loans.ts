// Folders lent to tests that start a server of their own, and the processes that live in them. They end with the run at the latest,
// with the test file that borrowed them at the next one's first request.
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { RecordedProcess } from '@brokkr/local/supervisor/process-table.ts'
import { endProcesses } from './end-processes.ts'
import type { Borrower } from './protocol.ts'
import type { TestRun } from './test-run.ts'

type Loan = { by: Borrower; processes: RecordedProcess[] }

export class Loans {
  readonly #run: TestRun
  readonly #loans = new Map<string, Loan>()
  #count = 0

  constructor(run: TestRun) {
    this.#run = run
  }

  async lend(kind: 'fast' | 'plain', by: Borrower): Promise<string> {
    this.#count += 1
    const folder = join(kind === 'fast' ? this.#run.fastFolder : this.#run.folder, `own-${this.#count}`)
    await mkdir(folder, { mode: 0o711 })
    this.#loans.set(folder, { by, processes: [] })
    return folder
  }

  note(folder: string, processes: readonly RecordedProcess[]): void {
    this.#loans.get(folder)?.processes.push(...processes)
    this.#run.note(processes)
  }

  /** What this worker borrowed for earlier files is over, whether the test remembered to stop it or not. */
  async takeBack(by: Borrower): Promise<void> {
    for (const [folder, loan] of this.#loans) {
      if (loan.by.pid !== by.pid || loan.by.file >= by.file) continue
      this.#loans.delete(folder)
      await endProcesses(loan.processes)
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
    }
  }
}
