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
  const selected = process.argv.slice(2).filter((arg) => !arg.startsWith('--'))
  const available = readdirSync(join(root, 'bench')).filter((name) => existsSync(join(root, 'bench', name, 'main.ts')))
  const unknown = selected.filter((name) => !available.includes(name))
  if (unknown.length > 0) throw new Error(`no benchmark named ${unknown.join(', ')}; there are: ${available.join(', ')}`)
  for (const name of selected.length > 0 ? selected : available) {
    if (stopped() !== null) break
    process.stdout.write(`\n## ${name}\n`)
    const { code } = await runProgram(node, [join(root, 'bench', name, 'main.ts')], { cwd: root, env: workspaceEnv(node), inherit: true })
    if (code !== 0) process.exitCode = 1
  }
} catch (error) {
  tellFailure(error)
  process.exitCode = 1
}
