// Programs as they ship: the broker in a folder (scripts/bundle-broker.mjs), others as one file.
import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { build } from 'vite'
import { bundleBroker } from '../scripts/bundle-broker.mjs'

/** The folder and its entry, as the broker is shipped. */
export async function bundle(): Promise<{ dir: string; main: string }> {
  const dir = mkdtempSync(join(tmpdir(), 'bench-bundle-'))
  return { dir, main: await bundleBroker(dir) }
}

/** One file that runs on a bare Node, as the agent is shipped. */
export async function bundleProgram(entry: string): Promise<string> {
  const outDir = mkdtempSync(join(tmpdir(), 'bench-program-'))
  await build({
    root: join(import.meta.dirname, '..'),
    configFile: false,
    logLevel: 'error',
    ssr: { noExternal: true, target: 'node' },
    build: {
      ssr: entry,
      outDir,
      target: 'node24',
      rollupOptions: { output: { format: 'es', entryFileNames: 'program.mjs', codeSplitting: false, minify: true, keepNames: true } },
    },
  })
  return join(outDir, 'program.mjs')
}
