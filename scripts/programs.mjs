// Builds the programs that `npm start` runs, as they ship, and describes in one file how each is started. Built again only when a source
// file changed. `node scripts/programs.mjs` prints the path of the description.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { agentEnv, agentFlags, bundleAgent } from './bundle-agent.mjs'
import { bundleBroker } from './bundle-broker.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))

/** @returns {Promise<string>} path of a file with `{ <program>: { args, env } }`; args follow the path of Node */
export async function preparePrograms(outDir = join(root, 'node_modules', '.brokkr-programs')) {
  const file = join(outDir, 'programs.json')
  const stamp = sourceStamp()
  if (existsSync(file) && JSON.parse(readFileSync(file, 'utf8')).stamp === stamp) return file
  mkdirSync(outDir, { recursive: true })
  const programs = {
    broker: { args: [await bundleBroker(join(outDir, 'broker'))], env: {} },
    agent: { args: [...agentFlags, await bundleAgent(join(outDir, 'agent'))], env: agentEnv },
  }
  writeFileSync(file, `${JSON.stringify({ stamp, programs }, null, 2)}\n`)
  return file
}

/** Changes with every source file, migration and package version. */
function sourceStamp() {
  const hash = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .update(process.version)
  const packages = join(root, 'packages')
  const folders = readdirSync(packages).flatMap((name) => [join(packages, name, 'src'), join(packages, name, 'migrations')])
  for (const folder of [...folders, join(root, 'scripts')].filter((path) => existsSync(path))) {
    for (const name of readdirSync(folder, { recursive: true }).toSorted((a, b) => (a < b ? -1 : 1))) {
      const { mtimeMs, size } = statSync(join(folder, name))
      hash.update(`${folder}/${name} ${mtimeMs} ${size}\n`)
    }
  }
  return hash.digest('hex')
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(`${await preparePrograms()}\n`)
