// Bundles the agent into one file that runs on a bare Node: what its image ships. `node scripts/bundle-agent.mjs [folder]`
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'
import { askForValues } from './builtin-imports.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))

/** How Node runs it: a heap that grows slowly, and the limit of the young generation. One
 *  thread beside the main one: the agent mostly waits, and more of them wake each other for every small collection. They stand in the
 *  file's first line, so that the file started by itself has them. */
export const agentFlags = ['--max-semi-space-size=4', '--heap-growing-percent=10', '--v8-pool-size=1']
/** What its image sets beside them: memory that is given back goes back to the system. */
export const agentEnv = { MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '65536', MALLOC_TRIM_THRESHOLD_: '65536' }

/** Writes agent.mjs into the folder and gives its path. */
export async function bundleAgent(outDir = join(root, 'packages', 'agent', 'dist', 'bundle')) {
  await build({
    root,
    configFile: false,
    logLevel: 'warn',
    build: {
      ssr: 'packages/agent/src/main.ts',
      outDir,
      emptyOutDir: true,
      target: 'node24',
      rollupOptions: {
        output: {
          entryFileNames: 'agent.mjs',
          format: 'es',
          codeSplitting: false,
          // Reduces memory; names stay readable in stack traces.
          minify: true,
          keepNames: true,
          banner: `#!/usr/bin/env -S node ${agentFlags.join(' ')}`,
        },
      },
    },
    // Everything comes along but what Node brings itself.
    ssr: { noExternal: true, target: 'node' },
  })
  const file = join(outDir, 'agent.mjs')
  // One character beyond Latin-1 would double the memory of the source; comments are removed, so all of them are in strings.
  const ascii = readFileSync(file, 'utf8').replace(/[^\0-\x7f]/gu, escaped)
  writeFileSync(file, askForValues(ascii))
  chmodSync(file, 0o755)
  return file
}

const escaped = (letter) =>
  [...Array(letter.length).keys()].map((at) => `\\u${letter.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(`${await bundleAgent(process.argv[2])}\n`)
