// What a command gets: broker and PAK, and the signal of Ctrl-C. The signal is installed on first use, so that a command that does
// not wait ends at once as usual.
import type { Client } from '@brokkr/client'
import { openClient } from './context.ts'
import { CliError, exitCodes } from './output.ts'

export interface Globals {
  readonly broker?: string
  readonly pakFile?: string
}

export class Cli {
  readonly globals: Globals
  readonly env: NodeJS.ProcessEnv
  #client: Promise<Client> | undefined
  #interrupt: AbortController | undefined
  #message = ''

  constructor(globals: Globals, env: NodeJS.ProcessEnv = process.env) {
    this.globals = globals
    this.env = env
  }

  client(): Promise<Client> {
    this.#client ??= openClient(this.globals, this.env)
    return this.#client
  }

  /** Aborts on Ctrl-C with the latest `message` as the error. A second Ctrl-C ends the process. */
  interruption(message: string): AbortSignal {
    this.#message = message
    if (this.#interrupt === undefined) {
      const controller = new AbortController()
      this.#interrupt = controller
      process.on('SIGINT', () => {
        if (controller.signal.aborted) process.exit(exitCodes.interrupted)
        controller.abort(new CliError(this.#message, { exitCode: exitCodes.interrupted }))
      })
    }
    return this.#interrupt.signal
  }
}
