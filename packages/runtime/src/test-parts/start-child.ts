// A program that runs the start checks, then prints that it has started.
import { checkStart } from '../start-checks.ts'

checkStart()
process.stdout.write('started\n')
