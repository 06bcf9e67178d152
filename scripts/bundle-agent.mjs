// Bundles the agent into one file that runs on a bare Node: what its image ships. `node scripts/bundle-agent.mjs [folder]`
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

const root = fileURLToPath(new URL('..', import.meta.url))

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
      minify: false,
      rollupOptions: { output: { entryFileNames: 'agent.mjs', format: 'es', codeSplitting: false } },
    },
    // Everything comes along but what Node brings itself.
    ssr: { noExternal: true, target: 'node' },
  })
  return join(outDir, 'agent.mjs')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(`${await bundleAgent(process.argv[2])}\n`)
