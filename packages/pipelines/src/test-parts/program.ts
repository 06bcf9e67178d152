// The program as a process of its own, for tests that kill it.
import { runPipelines } from '../main.ts'

await runPipelines({ env: process.env })
