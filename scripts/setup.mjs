// What every command does first, on any machine with Node 18: look at the machine, install packages when the lockfile
// changed, find the Node that everything else runs on. Plain JavaScript without dependencies.
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, statfsSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { runProgram } from './run-program.mjs'
import { StepFailed } from './steps.mjs'

export const root = dirname(dirname(fileURLToPath(import.meta.url)))
const stamp = join(root, 'node_modules', '.brokkr-lock-hash')
const neededMajor = 22
const neededMinor = 22

/** Runs the set-up steps; afterwards `node` is the path to Node 24 (or the machine's own where no package exists). */
export async function setUp(steps) {
  await steps.run('machine', async () => ({ detail: await checkMachine() }))
  await steps.run('packages', async (say) => ({ detail: await installPackages(say) }))
  return findNode()
}

/** The environment in which `node`, `tsc`, `vitest` … are those of the workspace. */
export const workspaceEnv = (node) => ({
  ...process.env,
  PATH: [dirname(node), join(root, 'node_modules', '.bin'), process.env.PATH].join(delimiter),
})

async function checkMachine() {
  const [major] = process.versions.node.split('.').map(Number)
  if (major < 18)
    throw new StepFailed({
      what: 'Node is too old',
      why: `${process.versions.node} runs here, 18 or newer is needed`,
      next: 'install Node 18 or newer (24 is then used from a package)',
    })
  const npm = await runProgram('npm', ['--version']).catch(() => null)
  if (npm === null || npm.code !== 0)
    throw new StepFailed({ what: 'npm is missing', why: 'the packages are installed by npm', next: 'install npm, which comes with Node' })
  const free = statfsSync(root)
  const gib = (free.bavail * free.bsize) / 1024 ** 3
  return `node ${process.versions.node} · npm ${npm.output.trim()} · ${gib.toFixed(1)} GiB free`
}

async function installPackages(say) {
  const hash = lockHash()
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === hash) return 'as in the lockfile'
  say('npm ci')
  const result = await runProgram('npm', ['ci', '--loglevel=error', '--no-audit', '--no-fund'], { cwd: root })
  if (result.code !== 0) {
    throw new StepFailed({
      what: 'packages were not installed',
      why: `npm ci ended with ${result.code}`,
      log: result.output,
      next: 'check that the npm registry is reachable, then run the same command again',
    })
  }
  mkdirSync(dirname(stamp), { recursive: true })
  writeFileSync(stamp, hash)
  return 'installed from the lockfile'
}

function lockHash() {
  const hash = createHash('sha256')
  for (const file of ['package-lock.json', '.npmrc']) hash.update(readFileSync(join(root, file)))
  return hash.update(`${process.platform}-${process.arch}`).digest('hex')
}

/** The platform package if there is one for this machine, else the Node that runs us if it is new enough. */
export function findNode(versions = process.versions.node, platform = `${process.platform}-${process.arch}`) {
  const packaged = join(root, 'node_modules', `node-${platform}`, 'bin', process.platform === 'win32' ? 'node.exe' : 'node')
  if (existsSync(packaged)) return packaged
  const [major, minor] = versions.split('.').map(Number)
  if (major > neededMajor || (major === neededMajor && minor >= neededMinor)) return process.execPath
  throw new StepFailed({
    what: 'Node is too old',
    why: `there is no Node package for ${platform}, and the machine's own is ${versions}`,
    next: `install Node 24 (at least ${neededMajor}.${neededMinor})`,
  })
}
