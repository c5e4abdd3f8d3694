"""What the commands of 'lab tenant' do, one module each."""
