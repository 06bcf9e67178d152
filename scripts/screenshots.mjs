// npm run screenshots [folder]: every screen of the console as pictures, full and empty, light and dark, in three widths.
import { join } from 'node:path'
import { prepareParts } from './parts.mjs'
import { forwardSignals, runProgram } from './run-program.mjs'
import { root, setUp, workspaceEnv } from './setup.mjs'
import { createSteps, tellFailure } from './steps.mjs'

forwardSignals()
try {
  const steps = createSteps({ plain: true })
  const node = await setUp(steps)
  const missing = await prepareParts(steps, node, ['browser'])
  if (missing.length > 0) throw new Error('no browser; the step above says what to install')
  const folder = process.argv[2] ?? join(root, 'reports', 'screenshots')
  const { code } = await runProgram(node, [join(root, 'scripts', 'take-screenshots.ts'), folder], {
    cwd: root,
    env: workspaceEnv(node),
    inherit: true,
  })
  process.exitCode = code
} catch (error) {
  tellFailure(error)
  process.exitCode = 1
}
