// How this very command line starts one of its programs again as a process of its own.
import { fileURLToPath } from 'node:url'

export function programOf(name: string): { command: string; args: string[] } {
  const main = process.argv[1] ?? fileURLToPath(new URL('../main.ts', import.meta.url))
  return { command: process.execPath, args: [main, name] }
}
