// npm start: sets the machine up and runs the whole product in the foreground; Ctrl-C stops all of it.
import { join } from 'node:path'
import { forwardSignals, runProgram, stopped } from './run-program.mjs'
import { root, setUp, workspaceEnv } from './setup.mjs'
import { createSteps, tellFailure } from './steps.mjs'

const args = process.argv.slice(2)
forwardSignals()
try {
  const node = await setUp(createSteps({ plain: args.includes('--plain') }))
  // A signal that came while packages were installed ends the start here, not after everything was started.
  if (stopped() !== null) process.exit(130)
  const { code } = await runProgram(node, [join(root, 'packages', 'cli', 'src', 'main.ts'), 'up', '--foreground', ...args], {
    cwd: root,
    env: workspaceEnv(node),
    inherit: true,
  })
  process.exit(code)
} catch (error) {
  tellFailure(error)
  process.exit(1)
}
