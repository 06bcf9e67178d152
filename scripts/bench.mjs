// npm run bench [name …]: runs the benchmarks of bench/ one after the other (two cores: never two at once). Each prints its
// own result lines: ours, a bare loop, a peer.
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { forwardSignals, runProgram, stopped } from './run-program.mjs'
import { root, setUp, workspaceEnv } from './setup.mjs'
import { createSteps, tellFailure } from './steps.mjs'

forwardSignals()
try {
  const node = await setUp(createSteps({ plain: true }))
  const wanted = process.argv.slice(2).filter((arg) => !arg.startsWith('--'))
  const found = readdirSync(join(root, 'bench')).filter((name) => existsSync(join(root, 'bench', name, 'main.ts')))
  const unknown = wanted.filter((name) => !found.includes(name))
  if (unknown.length > 0) throw new Error(`no benchmark named ${unknown.join(', ')}; there are: ${found.join(', ')}`)
  for (const name of wanted.length > 0 ? wanted : found) {
    if (stopped() !== null) break
    process.stdout.write(`\n## ${name}\n`)
    const { code } = await runProgram(node, [join(root, 'bench', name, 'main.ts')], { cwd: root, env: workspaceEnv(node), inherit: true })
    if (code !== 0) process.exitCode = 1
  }
} catch (error) {
  tellFailure(error)
  process.exitCode = 1
}
